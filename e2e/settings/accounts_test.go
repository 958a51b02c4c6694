package settings_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// One pqd serves the accounts of the sample. Each pushes, waits, pops batches, settles
// and receives events of its own queues, and reaches no others.
func TestSampleAccounts(t *testing.T) {
	t.Parallel()
	config, sample := filepath.Join(t.TempDir(), "accounts.conf"), pqd.Read(t, "../../deploy/accounts.conf")
	pqd.Write(t, config, sample)
	// In its own account pqd has the same rights as where there is only one account.
	user := regexp.MustCompile(`(?s)user: pqd, .*?\}\}`)
	text := func(file string) string {
		return strings.Join(strings.Fields(user.FindString(pqd.Read(t, file))), " ")
	}
	if sample := text("../../deploy/nats.conf"); sample == "" || text(config) != sample {
		t.Errorf("pqd is %s, expected %s", text(config), sample)
	}
	p := testenv.Daemon(t, "PQ_NATS_CONFIG="+config, "NATS_USER=pqd", "NATS_PASSWORD=pqd-secret",
		"PQD_PASSWORD=pqd-secret", "SALES_PASSWORD=sales-secret", "SHIPPING_PASSWORD=shipping-secret")
	accounts := make(map[string]*nats.Conn)
	for _, name := range []string{"sales", "shipping"} {
		accounts[name] = p.Connect(t, nats.UserInfo(name, name+"-secret"))
	}
	for name, nc := range accounts {
		t.Run(name, func(t *testing.T) { usesQueue(t, nc, name) })
	}
	// Accounts are apart whatever their users may do in them.
	free := regexp.MustCompile(`permissions: \{\s+publish: \{allow: \[.*\s+subscribe: .*\s+\}`)
	if len(free.FindAllString(sample, -1)) != len(accounts) {
		t.Fatalf("expected permissions of %d users in\n%s", len(accounts), sample)
	}
	pqd.Write(t, config, free.ReplaceAllString(sample, ""))
	p.HangUp(t)
	p.AwaitLog(t, "reloaded the configuration")
	for name := range accounts {
		accounts[name] = p.Connect(t, nats.UserInfo(name, name+"-secret"))
	}
	for subject, nc := range map[string]*nats.Conn{
		"pq.shipping.info": accounts["sales"], "pq.sales.info": accounts["shipping"], "pq.sales-dead.pop.min": accounts["shipping"],
		"pq._sys.list": accounts["sales"], "$SRV.PING.pq": accounts["sales"],
	} {
		if m, err := nc.Request(subject, nil, testenv.Patience()); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s: %v, %v, expected no responders", subject, m, err)
		}
	}
	p.Stop(t)
}

// The sample's exports name the account that may import them: the server refuses the
// imports of another one.
func TestSampleAccountsAreApart(t *testing.T) {
	t.Parallel()
	sample := regexp.MustCompile(`\$\w+_PASSWORD`).ReplaceAllString(pqd.Read(t, "../../deploy/accounts.conf"), "secret")
	parse := func(text string) error { return new(server.Options).ProcessConfigString(text) }
	if err := parse(sample); err != nil {
		t.Fatal(err)
	}
	const imports = "imports: ["
	own := regexp.MustCompile(`(?m)^ +(\{(?:service|stream): \{account: PQ, subject: "(pq\.[^"]+)"\}\})$`).FindAllStringSubmatch(sample, -1)
	if len(own) != 6 {
		t.Fatalf("the sample has the imports %v, expected 6", own)
	}
	for _, imported := range own {
		at := strings.LastIndex(sample, imports) // of shipping
		if strings.Contains(imported[2], "shipping") {
			at = strings.Index(sample, imports)
		}
		at += len(imports)
		if err := parse(sample[:at] + "\n" + imported[1] + sample[at:]); err == nil {
			t.Errorf("another account may import %s", imported[2])
		}
	}
}

// An account that imports a queue under another prefix settles leases under that one.
func TestRenamedImport(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(config, []byte(`
		accounts {
			PQ {users: [{user: pqd, password: secret}], exports: [{service: "pq.jobs.>", response_type: stream}, {stream: "pq.jobs.event.*"}]}
			APP {
				users: [{user: app, password: secret}]
				imports: [{service: {account: PQ, subject: "pq.jobs.>"}, to: "work.jobs.>"}]
			}
		}`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := testenv.Daemon(t, "PQ_NATS_CONFIG="+config, "NATS_USER=pqd", "NATS_PASSWORD=secret")
	nc := p.Connect(t, nats.UserInfo("app", "secret"))
	c, err := client.New(nc, client.Prefix("work"), client.BridgePrefix("pq"), client.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	q := c.Queue("jobs")
	for range 3 {
		if _, err := q.Push(t.Context(), []byte("work")); err != nil {
			t.Fatal(err)
		}
	}
	items, err := q.PopBatch(t.Context(), client.Min, 3, client.Lease(time.Hour))
	if err != nil || len(items) != 3 {
		t.Fatalf("popped %d items: %v", len(items), err)
	}
	again, err := c.Attach(items[1].AckSubject())
	if err != nil {
		t.Fatal(err)
	}
	native, err := c.Attach(strings.Replace(items[2].AckSubject(), "work.", "pq.", 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(items[0].Extend(t.Context()), items[0].Ack(t.Context()), again.Ack(t.Context()), native.Nack(t.Context())); err != nil {
		t.Error(err)
	}
	if info, err := q.Info(t.Context()); err != nil || info.Ready != 1 || info.Leased != 0 {
		t.Errorf("%+v, %v: expected the item that was given back", info, err)
	}
	itself := "jobs"
	if _, err := q.Configure(t.Context(), client.ConfigChange{HandOver: &itself}); err != nil {
		t.Fatal(err)
	}
	item, err := q.Pop(t.Context(), client.Min, client.Lease(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := item.HandOver(t.Context(), q, []byte("more work")); err != nil {
		t.Errorf("a hand-over: %v", err)
	}
	p.Stop(t)
}

func usesQueue(t *testing.T, nc *nats.Conn, queue string) {
	events, err := nc.SubscribeSync("pq." + queue + ".event.*")
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(nc, client.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	q := c.Queue(queue)
	waited := make(chan error, 1)
	go func() {
		item, err := q.Pop(t.Context(), client.Min, client.Wait(time.Minute))
		if err == nil && string(item.Payload) != "awaited" {
			err = fmt.Errorf("popped %q", item.Payload)
		}
		waited <- err
	}()
	for waiting := 0; waiting == 0; {
		info, err := q.Info(t.Context())
		if err != nil && !errors.Is(err, client.ErrNotFound) {
			t.Fatal(err)
		}
		if err == nil {
			waiting = info.Waiting
		} else if _, err := q.Configure(t.Context(), client.ConfigChange{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"awaited", "a", "b", "c"} {
		if _, err := q.Push(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
		if text == "awaited" {
			if err := <-waited; err != nil {
				t.Fatal(err)
			}
		}
	}
	items, err := q.PopBatch(t.Context(), client.Min, 3, client.Lease(time.Minute))
	if err != nil || len(items) != 3 {
		t.Fatalf("popped %d items: %v", len(items), err)
	}
	if err := errors.Join(items[0].Ack(t.Context()), items[1].Nack(t.Context()), items[2].Terminate(t.Context(), "odd")); err != nil {
		t.Error(err)
	}
	if info, err := q.Info(t.Context()); err != nil || info.Ready != 1 || info.Leased != 0 {
		t.Errorf("%+v, %v: expected the item that was given back", info, err)
	}
	if dead, err := c.Queue(queue+"-dead").Pop(t.Context(), client.Min); err != nil || string(dead.Payload) != "c" {
		t.Errorf("the dead letter: %+v, %v", dead, err)
	}
	if m, err := events.NextMsg(testenv.Patience()); err != nil || m.Subject != "pq."+queue+".event.dead" {
		t.Errorf("the event: %v, %v", m, err)
	}
}
