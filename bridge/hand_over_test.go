package bridge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
)

// refusedPush checks that a push was refused, in the body and the headers.
func (c *client) refusedPush(m *nats.Msg, code int, reason string) {
	c.Helper()
	var answer struct {
		Error struct {
			Code    int `json:"code"`
			ErrCode int `json:"err_code"`
		} `json:"error"`
	}
	err := json.Unmarshal(m.Data, &answer)
	if err != nil || answer.Error.Code != code || answer.Error.ErrCode != 30000+code || m.Header.Get("PQ-Reason") != reason {
		c.Errorf("%s, %v, expected code %d, reason %q", m.Data, m.Header, code, reason)
	}
}

// A push with PQ-Settle acknowledges the leased item in its transaction.
func TestHandOver(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{"hand_over":"mails"}`)
	item := c.lease("a job", "X-Mine", "1")
	c.push("pq.mails.push.7", "a mail", "PQ-Settle", item.Reply, "X-Other", "2", "Nats-Msg-Id", "1")
	if info := c.info("jobs"); info.Leased+info.Ready != 0 || info.Rates["settle"] <= 0 {
		t.Errorf("the queue of the lease: %+v", info)
	}
	c.lost(c.raw(item.Reply, "+ACK"), "gone")
	mail := c.pop("pq.mails.pop.min", "")
	if string(mail.Data) != "a mail" || mail.Header.Get("PQ-Settle") != "" || mail.Header.Get("X-Other") != "2" || mail.Header.Get("PQ-Priority") != "7" {
		t.Errorf("%s, %v", mail.Data, mail.Header)
	}
	again := c.push("pq.mails.push.7", "a mail", "PQ-Settle", item.Reply, "Nats-Msg-Id", "1")
	if !again.Duplicate {
		t.Errorf("the same push again: %+v", again)
	}
	c.refusedPush(c.ask("pq.mails.push", "a mail", "PQ-Settle", item.Reply), 410, "gone")
	c.refused(c.ask("pq.mails.pop.min", ""), 404, "empty")
}

// A hand-over needs the consent of the lease's queue, and a token that the bridge made for
// it: a right on one queue gives none on another.
func TestHandOverNeedsConsent(t *testing.T) {
	t.Parallel()
	c := serve(t)
	item := c.lease("a job")
	refused := func(code int, reason string, header ...string) {
		t.Helper()
		c.refusedPush(c.ask("pq.mails.push", "a mail", header...), code, reason)
	}
	refused(403, "", "PQ-Settle", item.Reply)
	c.ask("pq.jobs.admin.config", `{"hand_over":"mail,mails-2"}`)
	refused(403, "", "PQ-Settle", item.Reply)
	c.ask("pq.mails.admin.config", `{"hand_over":"*"}`) // whose leases it is not
	refused(403, "", "PQ-Settle", item.Reply)
	c.refusedPush(c.ask("pq.jobs.push", "another job", "PQ-Settle", item.Reply), 403, "")

	c.ask("pq.jobs.admin.config", `{"hand_over":"*"}`)
	foreign := serve(t).lease("a job").Reply
	for what, subject := range map[string]string{
		"of another queue":   strings.Replace(item.Reply, ".jobs.", ".mails.", 1),
		"of another store":   foreign,
		"changed":            item.Reply[:len(item.Reply)-1] + "_",
		"cut short":          item.Reply[:len(item.Reply)-9],
		"of another prefix":  "x" + item.Reply,
		"no ack subject":     "pq.jobs.push",
		"no subject":         "next",
		"an inbox":           c.NewInbox(),
		"of the whole queue": "pq.jobs.ack.>",
	} {
		m := c.ask("pq.mails.push", "a mail", "PQ-Settle", subject)
		c.refusedPush(m, 400, "")
		if !strings.Contains(m.Header.Get("Nats-Service-Error"), "PQ-Settle") {
			t.Errorf("%s: %v", what, m.Header)
		}
	}
	refused(400, "", "PQ-Settle", item.Reply, "PQ-Settle", item.Reply)
	refused(400, "", "PQ-Settle", "")
	if info := c.info("mails"); info.Ready != 0 {
		t.Errorf("%+v, expected no items", info)
	}
	c.accepted(c.raw(item.Reply, "+ACK"))
}

// Of many pushes that hand over one item, sent at once, one takes effect. So each item is
// handed over once, in whatever order.
func TestHandOversAtOnce(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Exclusive: true})
	c.ask("pq.jobs.admin.config", `{"hand_over":"a,b"}`)
	for _, to := range []string{"a", "b"} {
		c.ask("pq."+to+".admin.config", "{}") // it is there even if the other one gets all items
	}
	const items = 20
	var sent []answers
	for i := range items {
		item := c.lease(fmt.Sprint(i))
		for _, to := range []string{"a", "b", "a"} {
			sent = append(sent, c.send("pq."+to+".push", fmt.Sprint(i), "PQ-Settle", item.Reply))
		}
	}
	took := make(map[int]int)
	for i, answer := range sent {
		m := c.next(answer)
		if m.Header.Get("PQ-Reason") == "gone" {
			c.refusedPush(m, 410, "gone")
		} else {
			took[i/3]++
		}
	}
	for i := range items {
		if took[i] != 1 {
			t.Errorf("item %d was handed over %d times", i, took[i])
		}
	}
	if n := c.info("a").Ready + c.info("b").Ready; n != items {
		t.Errorf("%d items were handed over, expected %d", n, items)
	}
}

// One hand-over that is refused fails alone in its batch.
func TestRefusedHandOverFailsAlone(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{"hand_over":"mails"}`)
	lost := c.lease("1").Reply
	c.accepted(c.raw(lost, "+ACK"))
	good := c.lease("2").Reply
	before, refused, held, after := c.send("pq.mails.push", "a"), c.send("pq.mails.push", "b", "PQ-Settle", lost),
		c.send("pq.mails.push", "c", "PQ-Settle", good), c.send("pq.mails.push", "d")
	c.refusedPush(c.next(refused), 410, "gone")
	for _, answer := range []answers{before, held, after} {
		if m := c.next(answer); m.Header.Get("Nats-Service-Error") != "" {
			t.Errorf("%s, %v", m.Data, m.Header)
		}
	}
	if info := c.info("mails"); info.Ready != 3 {
		t.Errorf("%+v", info)
	}
}
