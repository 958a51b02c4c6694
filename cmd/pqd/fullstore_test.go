package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// pushed pushes an item and returns why it was refused, "" if it was not.
func pushed(t *testing.T, nc *nats.Conn, subject, body string, headers ...string) protocolReason {
	t.Helper()
	reply := request(t, nc, subject, body, headers...)
	if isAck(reply) {
		return ""
	}
	if code := reply.Header.Get("Nats-Service-Error-Code"); code != "429" {
		t.Fatalf("%s: %v %s, expected 429", subject, reply.Header, reply.Data)
	}
	return protocolReason(reply.Header.Get("PQ-Reason"))
}

type protocolReason string

const storeFull protocolReason = "store_full"

// An embedded store below PQ_MIN_FREE comes up, takes no new items, whatever brings them, and
// does everything else.
func TestNearlyFullDisk(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t, "PQ_CONSOLE=admin")
	nc := p.Connect(t, nats.MaxReconnects(-1))
	request(t, nc, "pq.jobs.admin.config", `{"hand_over":"jobs,mails","max_deliveries":1}`)
	pushMsg(t, nc, "pq.jobs.push.1", "first", "Nats-Msg-Id", "first")
	pushMsg(t, nc, "pq.jobs.push.2", "second")
	pushMsg(t, nc, "pq.jobs.push.3", "third", "PQ-Unique", "third")
	gone := pushMsg(t, nc, "pq.jobs.push.4", "fourth")
	pushMsg(t, nc, "pq.jobs.push.5", "fifth")
	stored := request(t, nc, "pq.jobs.get."+gone, "")
	p.Stop(t)
	p.Change("PQ_MIN_FREE=1000000T")
	p.Start(t)
	p.AwaitLog(t, "nearly full")
	nc = p.Connect(t)

	refuses := func(what string, why protocolReason, subject, body string, headers ...string) {
		t.Helper()
		if got := pushed(t, nc, subject, body, headers...); got != why {
			t.Errorf("%s: %q, expected %q", what, got, why)
		}
	}
	refuses("a push", storeFull, "pq.jobs.push", "new")
	refuses("a push to a new queue", storeFull, "pq.new.push", "new")
	refuses("a push with an id", storeFull, "pq.jobs.push", "new", "Nats-Msg-Id", "new")
	refuses("a bundle", storeFull, "pq.jobs.push", "0 3\nnew\n", "PQ-Bundle", "1")
	refuses("an import", storeFull, "pq.new.import", "fourth", "PQ-Id", gone)
	refuses("a push of an item that is there", "", "pq.jobs.push.1", "first", "Nats-Msg-Id", "first")
	refuses("an import of an item that is there", "", "pq.jobs.import", string(stored.Data), "PQ-Id", gone)
	refuses("a value that is there", "", "pq.jobs.push.0", "urgent", "PQ-Unique", "third", "PQ-On-Conflict", "raise")
	refuses("a replacement that is longer", storeFull, "pq.jobs.push.0", "longer", "PQ-Unique", "third", "PQ-On-Conflict", "replace")
	refuses("a replacement that is as long", "", "pq.jobs.push.0", "THIRD", "PQ-Unique", "third", "PQ-On-Conflict", "replace")

	lease := func() *nats.Msg {
		t.Helper()
		item := request(t, nc, "pq.jobs.pop.min", "", "PQ-Lease", "1h")
		if !isItem(item) {
			t.Fatalf("a lease was answered %v", item.Header)
		}
		return item
	}
	item := lease()
	if string(item.Data) != "THIRD" {
		t.Errorf("leased %q", item.Data)
	}
	refuses("a hand-over of more", storeFull, "pq.mails.push", "longer", "PQ-Settle", item.Reply)
	refuses("a hand-over of as much", "", "pq.mails.push", "fifth", "PQ-Settle", item.Reply)
	for _, c := range []struct{ body, after string }{{"+WPI", ""}, {"+ACK", ""}} {
		item := lease()
		if settled := request(t, nc, item.Reply, c.body); settled.Header.Get("Status") != "" {
			t.Errorf("%s was answered %v", c.body, settled.Header)
		}
	}
	if settled := request(t, nc, lease().Reply, "+TERM"); settled.Header.Get("Status") != "" {
		t.Errorf("+TERM was answered %v", settled.Header)
	}
	for subject, body := range map[string]string{
		"pq.jobs.info": "", "pq.jobs.list": "", "pq.jobs-dead.peek.min": "", "pq.jobs.admin.config": `{"lease":"1m"}`,
		"pq.mails.admin.purge": "",
	} {
		if reply := request(t, nc, subject, body); reply.Header.Get("Nats-Service-Error") != "" {
			t.Errorf("%s was answered %v", subject, reply.Header)
		}
	}
	var info struct{ Ready, Leased int }
	if err := json.Unmarshal(request(t, nc, "pq.jobs.info", "").Data, &info); err != nil || info.Ready != 1 || info.Leased != 1 {
		t.Errorf("%+v %v are left", info, err)
	}
	if code, body := ask(t, "GET", p.HTTP+"/readyz", ""); code != 200 {
		t.Errorf("/readyz answers %d %s", code, body)
	}
	if code, body := ask(t, "POST", p.HTTP+"/v1/queues/jobs/push", "new"); code != 429 || !strings.Contains(body, "store_full") {
		t.Errorf("HTTP answered a push %d %s", code, body)
	}
	dead := request(t, nc, "pq.jobs-dead.peek.min", "")
	if code, body := ask(t, "POST", p.HTTP+"/v1/queues/jobs-dead/items/"+dead.Header.Get("PQ-Id")+"/requeue", ""); code != 429 || !strings.Contains(body, "store_full") {
		t.Errorf("HTTP answered a requeue %d %s", code, body)
	}
	if again := request(t, nc, "pq.jobs-dead.peek.min", ""); again.Header.Get("PQ-Id") != dead.Header.Get("PQ-Id") {
		t.Errorf("the dead letter is gone: %v", again.Header)
	}
	if code, body := ask(t, "GET", p.HTTP+"/metrics", ""); code != 200 || !strings.Contains(body, `reason="store_full"`) {
		t.Errorf("no metric counts the refusals")
	}

	p.Stop(t)
	p.Change("PQ_MIN_FREE=0")
	p.Start(t)
	refuses("a push to a store with room", "", "pq.jobs.push", "new")
}
