package bridge_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// roomUnless is the room of a store that has some until it is full.
func roomUnless(full *atomic.Bool) func(int) error {
	return func(int) error {
		if full.Load() {
			return errors.New("no room")
		}
		return nil
	}
}

// A store without room refuses new items. It still recognizes the items that it has, so the
// repetition of a push whose answer was lost is a duplicate.
func TestFullStoreRecognizesItems(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	c := serve(t, bridge.Options{Room: roomUnless(&full)})
	first := c.push("pq.jobs.push.1", "first", "Nats-Msg-Id", "a")
	stored := c.ask("pq.jobs.get."+first.ID, "")
	imported := func(subject string) *nats.Msg {
		return c.askMsg(&nats.Msg{Subject: subject, Header: stored.Header, Data: stored.Data})
	}
	full.Store(true)
	c.refused(c.ask("pq.jobs.push.1", "new"), 429, "store_full")
	c.refused(c.ask("pq.jobs.push.1", "new", "Nats-Msg-Id", "b"), 429, "store_full")
	c.refused(c.ask("pq.new.push.1", "new", "Nats-Msg-Id", "a"), 429, "store_full")
	c.refused(imported("pq.new.import"), 429, "store_full")
	if again := c.push("pq.jobs.push.1", "first", "Nats-Msg-Id", "a"); !again.Duplicate || again.ID != first.ID {
		t.Errorf("the repeated push was answered %+v, expected a duplicate of %s", again, first.ID)
	}
	if again := c.acknowledged(imported("pq.jobs.import")); !again.Duplicate {
		t.Errorf("the import of an item that is there was answered %+v, expected a duplicate", again)
	}
	c.refused(c.ask("pq.new.info", ""), 404)
	c.pop("pq.jobs.pop.min", "")

	full.Store(false)
	if now := c.push("pq.jobs.push.1", "new", "Nats-Msg-Id", "b"); now.Duplicate {
		t.Errorf("a push that was refused counts as stored: %+v", now)
	}
}

// A bundle with a new item is refused while the store is full. Pushes of the same
// transaction whose items are there are still recognized.
func TestFullStoreRefusesBundleAlone(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true, Room: roomUnless(&full)})
	first := c.push("pq.jobs.push", "known", "Nats-Msg-Id", "a")
	again := func() answers { return c.send("pq.jobs.push", "known", "Nats-Msg-Id", "a") }
	frames := frame("known", "Nats-Msg-Id", "a") + frame("new", "Nats-Msg-Id", "b")
	c.inFlight("work", 0)
	release := db.blockNext()
	held := c.send("pq.jobs.push", "before")
	db.awaitBlocked(c)
	all := []answers{again(), c.send("pq.jobs.push", frames, "PQ-Bundle", "2"), again()}
	c.inFlight("work", 5) // a bundle counts as its items
	full.Store(true)
	release()
	c.acknowledged(c.next(held))
	for _, i := range []int{0, 2} {
		if ack := c.acknowledged(c.next(all[i])); !ack.Duplicate || ack.ID != first.ID {
			t.Errorf("the repeated push %d was answered %+v", i, ack)
		}
	}
	refused := c.refused(c.next(all[1]), 429, "store_full")
	c.refusedItem(refused, 429, 1, "no room")
	if i := c.info("jobs"); i.Ready != 2 {
		t.Errorf("%d items are ready", i.Ready)
	}
}

// A full store takes no schedule that is new, or whose item grows, and runs none. It changes those that it has.
func TestFullStoreRefusesSchedules(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	c := serve(t, bridge.Options{Room: roomUnless(&full)})
	const schedule = "pq.jobs.admin.schedule.s"
	c.ask(schedule, `{"spec":"@yearly","item":{"payload":"large"}}`)
	full.Store(true)
	c.refused(c.ask("pq.jobs.admin.schedule.new", `{"spec":"@yearly"}`), 429, "store_full")
	c.refused(c.ask("pq.none.admin.schedule.s", `{"spec":"@yearly"}`), 429, "store_full")
	c.refused(c.ask(schedule, `{"item":{"payload":"larger"}}`), 429, "store_full")
	c.refused(c.ask(schedule+".run", ""), 429, "store_full")
	if s := object[protocol.Schedule](c, schedule, `{"item":{"payload":"small"},"paused":true}`); !s.Paused || *s.Item.Payload != "small" {
		t.Errorf("the schedule is %+v", s)
	}
	c.refused(c.ask("pq.none.info", ""), 404)
	full.Store(false)
	c.acknowledged(c.ask(schedule+".run", ""))
}

// A full store takes no other definition that is new: settings of a key, the configuration of a queue that it makes, sources,
// links. It changes those that it has, and deletes them.
func TestFullStoreRefusesDefinitions(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	c := serve(t, bridge.Options{Room: roomUnless(&full)})
	c.ask("pq.jobs.admin.key.k", `{"limit":1}`)
	full.Store(true)
	for subject, body := range map[string]string{
		"pq.jobs.admin.key.new":  `{"limit":1}`,
		"pq.none.admin.key.k":    `{"limit":1}`,
		"pq.none.admin.config":   `{"lease":"1m"}`,
		"pq.jobs.admin.source.s": `{"stream":"S"}`,
		"pq.jobs.admin.link.l":   `{}`,
		"pq.none.admin.link.l":   `{}`,
	} {
		c.refused(c.ask(subject, body), 429, "store_full")
	}
	c.refused(c.ask("pq.none.info", ""), 404)
	for _, ask := range [][2]string{
		{"key.k", `{"limit":2}`}, {"key.none", `{"limit":null}`}, {"config", `{"lease":"1m"}`}, {"pause", ""}, {"purge", ""}, {"delete", ""},
	} {
		subject := "pq.jobs.admin." + ask[0]
		if m := c.ask(subject, ask[1]); m.Header.Get("Nats-Service-Error-Code") != "" {
			t.Errorf("%s is refused: %v", subject, m.Header)
		}
	}
}

// The reserve of a full store is for requests that make room. All others are refused, and whatever they hold stays.
func TestReserveOfFullStore(t *testing.T) {
	t.Parallel()
	var low atomic.Bool
	hub := bridge.Remote{Read: map[string][]string{"S": {"*"}}, Connect: func(...nats.Option) (*nats.Conn, error) { return nil, nats.ErrNoServers }}
	c := serve(t, bridge.Options{
		Exclusive: true, Room: roomUnless(&low), Reserve: func() error { return roomUnless(&low)(0) },
		Remotes: func() map[string]bridge.Remote { return map[string]bridge.Remote{"hub": hub} },
	})
	c.ask("pq.jobs.admin.config", `{"hand_over":"jobs","lease":"1h"}`)
	for _, body := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		c.push("pq.jobs.push.1", body, "Nats-Msg-Id", body)
	}
	c.push("pq.plain.push", "x")
	cancelled := c.push("pq.unwanted.push", "x").ID
	lease := func() string { return c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h").Reply }
	acked, nacked, backed, termed, kept, next, over := lease(), lease(), lease(), lease(), lease(), lease(), lease()
	id := c.pop("pq.jobs.peek.min", "").Header.Get("PQ-Id")
	c.ask("pq.jobs.admin.schedule.s", `{"spec":"@yearly"}`)
	object[protocol.Source](c, "pq.jobs.admin.source.s", `{"remote":"hub","stream":"S"}`)
	object[protocol.Link](c, "pq.jobs.admin.link.l", `{"to":"hub"}`)
	c.ask("pq.jobs.admin.key.k", `{"limit":1}`)
	low.Store(true)
	for _, ask := range []struct {
		subject, body string
		header        []string
		served        bool
	}{
		{subject: "pq.jobs.push", body: "new"},
		{subject: "pq.jobs.push.1", body: "a", header: []string{"Nats-Msg-Id", "a"}},
		{subject: "pq.jobs.push", body: "handed", header: []string{"PQ-Settle", over}},
		{subject: "pq.jobs.import", header: []string{"PQ-Id", id}},
		{subject: "pq.jobs.pop.min", header: []string{"PQ-Lease", "1m"}},
		{subject: "pq.jobs.pop.min", header: []string{"PQ-Lease", "1m", "PQ-Wait", "1m"}},
		{subject: "pq.jobs.pop.min", header: []string{"Nats-Msg-Id", "once"}},
		{subject: "pq.jobs.pop.min", header: []string{"PQ-Confirm", "1s"}},
		{subject: "pq.jobs.link.l", body: `{"taker":"x"}`},
		{subject: kept, body: "+WPI"},
		{subject: next, body: "+NXT"},
		{subject: "pq.jobs.move." + id + ".2"},
		{subject: "pq.jobs.revoke." + id},
		{subject: "pq.jobs.requeue." + id},
		{subject: "pq.jobs.admin.config", body: `{"lease":"1m"}`},
		{subject: "pq.jobs.admin.key.k", body: `{"limit":2}`},
		{subject: "pq.jobs.admin.schedule.s", body: `{"spec":"@daily"}`},
		{subject: "pq.jobs.admin.schedule.s.resume"},
		{subject: "pq.jobs.admin.schedule.s.run"},
		{subject: "pq.jobs.admin.source.s", body: `{"priority":1}`},
		{subject: "pq.jobs.admin.source.s.resume"},
		{subject: "pq.jobs.admin.link.l", body: `{"paused":true}`},
		{subject: "pq.jobs.admin.link.l.resume"},
		{subject: "pq.jobs.admin.move", body: `{"all":true,"priority":3}`},
		{subject: "pq.jobs.admin.revoke", body: `{"all":true}`},
		{subject: "pq.jobs-dead.admin.requeue", body: `{"all":true}`},
		{subject: acked, body: "+ACK", served: true},
		{subject: nacked, body: "-NAK", served: true},
		{subject: backed, body: "+BACK", served: true},
		{subject: termed, body: "+TERM", served: true},
		{subject: "pq.jobs.peek.min", served: true},
		{subject: "pq.jobs.peek.min", header: []string{"PQ-Wait", "1m"}, served: true},
		{subject: "pq.jobs.info", served: true},
		{subject: "pq.jobs.list", served: true},
		{subject: "pq.jobs.get." + id, served: true},
		{subject: "pq.jobs.admin.config", served: true},
		{subject: "pq.jobs.admin.key.k", served: true},
		{subject: "pq.jobs.admin.schedule.s", served: true},
		{subject: "pq.jobs.admin.source.s", served: true},
		{subject: "pq.jobs.admin.link.l", served: true},
		{subject: "pq.jobs.admin.schedule.s.pause", served: true},
		{subject: "pq.jobs.admin.source.s.pause", served: true},
		{subject: "pq.jobs.admin.link.l.pause", served: true},
		{subject: "pq.jobs.admin.schedule.s.delete", served: true},
		{subject: "pq.jobs.admin.source.s.delete", served: true},
		{subject: "pq.jobs.admin.link.l.delete", served: true},
		{subject: "pq.jobs.admin.pause", served: true},
		{subject: "pq.jobs.admin.resume", served: true},
		{subject: "pq.plain.pop.min", served: true},
		{subject: "pq.unwanted.cancel." + cancelled, body: `{"reason":"no room"}`, served: true},
		{subject: "pq.jobs.remove." + id, served: true},
		{subject: "pq.jobs-dead.admin.remove", body: `{"all":true}`, served: true},
		{subject: "pq.jobs.admin.purge", served: true},
		{subject: "pq.jobs.admin.delete", served: true},
	} {
		m := c.raw(ask.subject, ask.body, ask.header...)
		code, reason := m.Header.Get("Nats-Service-Error-Code"), m.Header.Get("PQ-Reason")
		if !ask.served && (code != "429" || reason != "store_full") {
			t.Errorf("%s %s %q was answered %v %s, expected 429 store_full", ask.subject, ask.body, ask.header, m.Header, m.Data)
		}
		if ask.served && code != "" {
			t.Errorf("%s %s was answered %v", ask.subject, ask.body, m.Header)
		}
	}
}

// On a disk that is full nearly to the last byte only requests that end items are served, and those that read.
func TestLastRoomOfFullStore(t *testing.T) {
	t.Parallel()
	var last atomic.Bool
	hub := bridge.Remote{Read: map[string][]string{"S": {"*"}}, Connect: func(...nats.Option) (*nats.Conn, error) { return nil, nats.ErrNoServers }}
	why := func() error { return roomUnless(&last)(0) }
	c := serve(t, bridge.Options{
		Exclusive: true, Room: roomUnless(&last), Reserve: why, Last: why,
		Remotes: func() map[string]bridge.Remote { return map[string]bridge.Remote{"hub": hub} },
	})
	c.ask("pq.jobs.admin.config", `{"lease":"1h"}`)
	for range 7 {
		c.push("pq.jobs.push.1", "x")
	}
	c.push("pq.plain.push", "x")
	cancelled := c.push("pq.unwanted.push", "x").ID
	lease := func() string { return c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h").Reply }
	acked, nacked, backed, termed, next := lease(), lease(), lease(), lease(), lease()
	id := c.pop("pq.jobs.peek.min", "").Header.Get("PQ-Id")
	for _, name := range []string{"s", "t"} {
		c.ask("pq.jobs.admin.schedule."+name, `{"spec":"@yearly"}`)
	}
	object[protocol.Source](c, "pq.jobs.admin.source.s", `{"remote":"hub","stream":"S"}`)
	object[protocol.Link](c, "pq.jobs.admin.link.l", `{"to":"hub"}`)
	last.Store(true)
	for _, ask := range []struct {
		subject, body string
		header        []string
		served        bool
	}{
		{subject: "pq.jobs.push", body: "new"},
		{subject: "pq.plain.pop.min"},
		{subject: acked, body: "+ACK"},
		{subject: nacked, body: "-NAK"},
		{subject: backed, body: "+BACK"},
		{subject: termed, body: "+TERM"},
		{subject: next, body: "+NXT"},
		{subject: "pq.jobs.admin.pause"},
		{subject: "pq.jobs.admin.schedule.s.pause"},
		{subject: "pq.jobs.admin.source.s.pause"},
		{subject: "pq.jobs.admin.link.l.pause"},
		{subject: "pq.jobs.admin.schedule.s", body: `{"spec":"@daily"}`},
		{subject: "pq.jobs.move." + id + ".2"},
		{subject: "pq.jobs-dead.admin.requeue", body: `{"all":true}`},
		{subject: "pq.jobs.peek.min", served: true},
		{subject: "pq.jobs.info", served: true},
		{subject: "pq.jobs.list", served: true},
		{subject: "pq.jobs.get." + id, served: true},
		{subject: "pq.jobs.admin.config", served: true},
		{subject: "pq.jobs.admin.schedule.s", served: true},
		{subject: "pq.jobs.admin.schedule.s.delete", served: true},
		{subject: "pq.jobs.admin.source.s.delete", served: true},
		{subject: "pq.jobs.admin.link.l.delete", served: true},
		{subject: "pq.unwanted.cancel." + cancelled, body: `{"reason":"no room"}`, served: true},
		{subject: "pq.jobs.remove." + id, served: true},
		{subject: "pq.plain.admin.remove", body: `{"all":true}`, served: true},
		{subject: "pq.jobs.admin.purge", served: true},
		{subject: "pq.jobs.admin.delete", served: true},
	} {
		m := c.raw(ask.subject, ask.body, ask.header...)
		code, reason := m.Header.Get("Nats-Service-Error-Code"), m.Header.Get("PQ-Reason")
		if !ask.served && (code != "429" || reason != "store_full") {
			t.Errorf("%s %s was answered %v %s, expected 429 store_full", ask.subject, ask.body, m.Header, m.Data)
		}
		if ask.served && code != "" {
			t.Errorf("%s %s was answered %v", ask.subject, ask.body, m.Header)
		}
	}
}

// A settlement that shares a transaction with pops meets the same rule.
func TestReserveAmongPops(t *testing.T) {
	t.Parallel()
	var low atomic.Bool
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true, Reserve: func() error { return roomUnless(&low)(0) }})
	acks := c.leases(3)
	for range 2 * (len(acks) + 1) {
		c.push("pq.jobs.push", "x")
	}
	low.Store(true)
	for _, settlement := range []string{"+WPI", "+ACK"} {
		settled, popped, release := c.behind(db, acks, settlement)
		release()
		for _, pop := range popped {
			if m := c.next(pop); !testenv.IsItem(m) {
				t.Errorf("a pop for good was answered %v", m.Header)
			}
		}
		for _, answer := range settled {
			m := c.next(answer)
			if refused := m.Header.Get("PQ-Reason") == "store_full"; refused != (settlement == "+WPI") {
				t.Errorf("%s was answered %v", settlement, m.Header)
			}
		}
	}
}

// With the last of the room a settlement that keeps its item is refused, and no other one of its transaction.
func TestSettlementsThatKeepTheirItems(t *testing.T) {
	t.Parallel()
	var low atomic.Bool
	why := func() error { return roomUnless(&low)(0) }
	store := testenv.OpenStore(t, placed(t), fdbpq.Options{Exclusive: true, Full: func(int64) error { return why() }, Low: why})
	c := serveStore(t, store, bridge.Options{Exclusive: true, Room: roomUnless(&low), Reserve: why})
	acks := c.leases(6)
	low.Store(true)
	for i, word := range []string{"-NAK", "+BACK", "+BACK why", "+TERM"} {
		m := c.raw(acks[i], word)
		if code, reason := m.Header.Get("Nats-Service-Error-Code"), m.Header.Get("PQ-Reason"); code != "429" || reason != "store_full" {
			t.Errorf("%s was answered %v, expected 429 store_full", word, m.Header)
		}
	}
	bundle := fmt.Sprintf("%s -NAK\n%s\n%s +TERM\n%s", acks[0], acks[1], acks[2], acks[3])
	lines := strings.Split(strings.TrimSpace(string(c.raw("pq.jobs.ack.bundle.settle", bundle, "PQ-Bundle", "4").Data)), "\n")
	for i, line := range lines {
		if refused := strings.HasPrefix(line, "-ERR 429 store_full "); refused != (i%2 == 0) || !refused && line != "+OK" {
			t.Errorf("line %d of a bundle was answered %q", i, line)
		}
	}
	low.Store(false)
	for _, i := range []int{0, 2} {
		if m := c.raw(acks[i], "-NAK"); m.Header.Get("Nats-Service-Error-Code") != "" {
			t.Errorf("with room -NAK was answered %v", m.Header)
		}
	}
	if info := c.info("jobs"); info.Ready != 2 || info.Leased != 2 {
		t.Errorf("there are %+v, expected that two were given back, and that two were not settled", info)
	}
}
