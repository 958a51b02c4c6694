package versions_test

import (
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/testenv"
)

// settle settles a lease in one way or another.
func (u *user) settle(h *hold) {
	u.journal.note(func() { h.handouts[h.at].settled = true })
	switch n := u.random.IntN(20); {
	case n < 7:
		u.done(h, "+ACK")
	case n < 11:
		word := []string{"-NAK", `-NAK {"reason":"no luck"}`, "-NAK 30ms", `-NAK {"delay":1000000,"reason":"later"}`}[u.random.IntN(4)]
		u.word(h, &h.failures, word)
	case n < 14:
		u.word(h, &h.returns, []string{"+BACK", "+BACK to be stopped"}[u.random.IntN(2)])
	case n < 15:
		reason := fmt.Sprint("given up by ", u.next())
		u.journal.note(func() { h.given = append(h.given, reason) })
		u.ask(h.ack, "+TERM "+reason)
	case n < 17:
		u.ask(h.ack, "+WPI")
		u.held = append(u.held, h)
	case n < 19:
		u.exchange(h)
	default:
		u.handOver(h)
	}
}

// word settles a lease so that the item comes back.
func (u *user) word(h *hold, events *[]event, word string) {
	call := u.journal.now()
	reply, again := u.ask(h.ack, word)
	u.journal.settled(events, word, call, outcome(code(reply) == "", again))
}

// outcome is what is known of something that an answer confirms or refuses.
func outcome(confirmed, again bool) certainty {
	switch {
	case confirmed:
		return certain
	case again:
		return possible
	}
	return never
}

// done settles a lease so that the item is gone.
func (u *user) done(h *hold, word string) {
	call := u.journal.now()
	reply, again := u.ask(h.ack, word)
	if c := code(reply); c != "" && c != "410" {
		u.Errorf("%s of %s: %v", word, h.name, reply.Header)
	}
	u.journal.settled(&h.ends, word, call, outcome(code(reply) == "", again))
}

// exchange acknowledges an item and leases the next one.
func (u *user) exchange(h *hold) {
	call := u.journal.now()
	reply, again := u.ask(h.ack, "+NXT", "PQ-Lease", long.String(), "Nats-Msg-Id", u.next())
	u.journal.settled(&h.ends, "+NXT", call, outcome(code(reply) != "410", again))
	u.handedOut(reply, call, long, again)
}

// handOver pushes an item that takes the place of a leased one.
func (u *user) handOver(h *hold) {
	call := u.journal.now()
	u.push(h.ack)
	u.held = append(u.held, h) // a refused push leaves the lease as it was
	u.journal.note(func() {
		really := possible
		if it := u.journal.items[fmt.Sprintf("%s-%d", u.name, u.requests)]; it.push == certain && !it.repeated && it.unique == "" {
			really = certain
		} else if it.push == never && it.unique == "" {
			return
		}
		h.ends = append(h.ends, event{span{call, u.journal.now()}, "handed over", really})
	})
}

// change does something to an item, in whatever state it is.
func (u *user) change(it *item) {
	call := u.journal.now()
	switch u.random.IntN(4) {
	case 0:
		priority := u.random.Int64N(10)
		u.journal.note(func() { it.priorities = append(it.priorities, priority) })
		u.ask(fmt.Sprintf("pq.%s.move.%s.%d", u.queue, it.id, priority), "")
	case 1:
		reply, again := u.ask(fmt.Sprintf("pq.%s.remove.%s", u.queue, it.id), "")
		u.journal.settled(&it.ends, "removed", call, outcome(code(reply) == "", again))
	case 2:
		u.journal.note(func() { it.revoked = true })
		reply, again := u.ask(fmt.Sprintf("pq.%s.revoke.%s", u.queue, it.id), `{"delay":"20ms"}`)
		u.journal.settled(&it.returns, "revoked", call, outcome(code(reply) == "", again))
	case 3:
		u.ask(fmt.Sprintf("pq.%s.get.%s", u.queue, it.id), `{"attempts":true,"explain":true}`)
	}
}

// finish settles all leases.
func (u *user) finish() {
	for len(u.held) > 0 {
		h := u.held[0]
		u.held = u.held[1:]
		u.journal.note(func() { h.handouts[h.at].settled = true })
		u.word(h, &h.returns, "+BACK")
	}
}

// drain takes all that the queue has, and then its dead letters.
func (u *user) drain() {
	for _, queue := range []string{u.queue, u.queue + "-dead"} {
		u.Queue = queue
		info := ""
		defer func() {
			if u.Failed() {
				u.Logf("%s: %s", queue, info)
			}
		}()
		testenv.Await(u, queue+" is empty", func() bool {
			for u.pop(queue, 0) {
			}
			info = u.Info()
			return strings.Contains(info, `"ready":0,"leased":0,"delayed":0`) || strings.Contains(info, `"unknown"`)
		})
	}
}
