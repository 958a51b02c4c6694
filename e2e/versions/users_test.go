package versions_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// user uses all that a queue can do with its items, one request after the other, and keeps the journal.
type user struct {
	*testenv.Worker // sends requests until they are answered
	random          *rand.Rand
	journal         *journal
	queue           string
	name            string
	requests        int
	held            []*hold
	last            *item // pushed, with an id of the push
}

// hold is a lease.
type hold struct {
	*item
	ack string
	at  int // of its handouts
}

const (
	short, long = 600 * time.Millisecond, 10 * time.Minute // leases
	fewest      = 5                                        // failures, or interruptions, of which an item dies in any configuration
)

// ask sends a request until it is answered. again says that an earlier attempt may have done it.
func (u *user) ask(subject, body string, headers ...string) (reply *nats.Msg, again bool) {
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	for i := 0; i < len(headers); i += 2 {
		m.Header.Set(headers[i], headers[i+1])
	}
	reply, tries := u.Repeat(m)
	return reply, tries > 1
}

func (u *user) next() string {
	u.requests++
	return fmt.Sprintf("%s-%d", u.name, u.requests)
}

// chance is true once in n times.
func (u *user) chance(n int) bool { return u.random.IntN(n) == 0 }

// step does something.
func (u *user) step() {
	switch n := u.random.IntN(100); {
	case n < 30:
		u.push("")
	case n < 34 && u.last != nil:
		u.pushAgain()
	case n < 48:
		u.pop(u.queue, 0)
	case n < 72 && len(u.held) < 5:
		u.pop(u.queue, []time.Duration{short, long, long}[u.random.IntN(3)])
	case n < 76:
		u.pop(u.queue+"-dead", 0)
	case n < 80 && u.last != nil:
		u.change(u.last)
	case len(u.held) > 0:
		at := u.random.IntN(len(u.held))
		h := u.held[at]
		u.held = append(u.held[:at], u.held[at+1:]...)
		u.settle(h)
	default:
		u.pop(u.queue, 0)
	}
}

func code(reply *nats.Msg) string { return reply.Header.Get("Nats-Service-Error-Code") }

// push pushes an item, which takes the place of a leased one if there is an ack subject.
func (u *user) push(settles string) {
	id := u.next()
	it := &item{
		name: id, queue: u.queue, color: strconv.FormatUint(u.random.Uint64(), 36), size: u.random.IntN(200),
		priorities: []int64{u.random.Int64N(10)},
	}
	headers := []string{"Nats-Msg-Id", id, "Color", it.color}
	switch {
	case u.chance(20):
		it.size = 20_000 + u.random.IntN(60_000)
	case u.chance(3):
		it.size = 1_500 + u.random.IntN(3_000) // programs differ in which content has rows of its own
	}
	if u.chance(2) {
		it.key = fmt.Sprint("key-", u.random.IntN(6))
		headers = append(headers, "PQ-Key", it.key, "PQ-Weight", strconv.Itoa(1+u.random.IntN(9)))
	}
	if u.chance(4) {
		it.unique = fmt.Sprint("value-", u.random.IntN(12))
		headers = append(headers, "PQ-Unique", it.unique)
		if it.untilLeased = u.chance(2); it.untilLeased {
			headers = append(headers, "PQ-Unique-Until", "leased")
		}
	}
	if u.chance(5) {
		it.delay = time.Duration(1+u.random.IntN(3000)) * time.Millisecond
		headers = append(headers, "PQ-Delay", it.delay.String())
	}
	if u.chance(6) {
		it.ttl = []time.Duration{time.Hour, time.Duration(200+u.random.IntN(2000)) * time.Millisecond}[u.random.IntN(2)]
		headers = append(headers, "PQ-TTL", it.ttl.String())
	}
	if settles != "" {
		headers = append(headers, "PQ-Settle", settles)
	}
	u.journal.push(it)
	reply, again := u.ask(fmt.Sprintf("pq.%s.push.%d", u.queue, it.priorities[0]), it.payload(), headers...)
	u.pushed(it, reply, again, settles)
}

func (it *item) payload() string { return it.name + " " + strings.Repeat(it.color[:1], it.size) }

// pushed notes the answer to a push.
func (u *user) pushed(it *item, reply *nats.Msg, again bool, settles string) {
	var pushed struct {
		ID        string
		Duplicate bool
		Error     *struct {
			Code        int
			Description string
		}
	}
	if err := json.Unmarshal(reply.Data, &pushed); err != nil {
		u.Errorf("push %s: %v in %s %v", it.name, err, reply.Data, reply.Header)
		return
	}
	u.journal.note(func() {
		it.pushed.answer, it.repeated, it.id = u.journal.now(), again, pushed.ID
		switch {
		case pushed.Error != nil && (settles == "" || pushed.Error.Code != 410 && pushed.Error.Code != 403):
			u.Errorf("push %s: refused: %+v", it.name, *pushed.Error)
		case pushed.Error != nil && !again, pushed.Duplicate && !again:
			it.push, it.duplicate = never, pushed.Duplicate
		case pushed.Error != nil, pushed.Duplicate && it.unique != "":
			it.push = possible
		default:
			it.push = certain
		}
	})
	if it.push == certain {
		u.last = it
	}
}

// pushAgain pushes an item with the id of an earlier push.
func (u *user) pushAgain() {
	it := u.last
	reply, _ := u.ask(fmt.Sprintf("pq.%s.push.%d", u.queue, it.priorities[0]), it.payload(), "Nats-Msg-Id", it.name)
	var pushed struct {
		ID        string
		Duplicate bool
	}
	if err := json.Unmarshal(reply.Data, &pushed); err != nil || !pushed.Duplicate || pushed.ID != it.id {
		u.journal.note(func() {
			u.journal.wrong = append(u.journal.wrong, fmt.Sprintf("%s was pushed again: %s, expected a duplicate of %s", it.name, reply.Data, it.id))
		})
	}
}

// pop pops the first item, or leases it, and reports whether there was one.
func (u *user) pop(queue string, lease time.Duration) bool {
	headers := []string{"Nats-Msg-Id", u.next()}
	if lease > 0 {
		headers = append(headers, "PQ-Lease", lease.String(), "PQ-Holder", u.name)
	}
	if u.chance(4) {
		headers = append(headers, "PQ-Wait", "100ms")
	}
	call := u.journal.now()
	reply, again := u.ask("pq."+queue+".pop.min", "", headers...)
	return u.handedOut(reply, call, lease, again)
}

// handedOut notes the answer to a pop. It reports whether that is an item.
func (u *user) handedOut(reply *nats.Msg, call, lease time.Duration, again bool) bool {
	if !testenv.IsItem(reply) {
		switch status := reply.Header.Get("Status"); {
		case status == "404", status == "408", status == "410", code(reply) == "410", reply.Header.Get("PQ-Reason") == "lease_required":
		default:
			u.Errorf("pop of %s: %v %s", u.queue, reply.Header, reply.Data)
		}
		return false
	}
	name, _, _ := strings.Cut(string(reply.Data), " ")
	number := func(header string) (n int64) {
		if text := reply.Header.Get(header); text != "" {
			var err error
			if n, err = strconv.ParseInt(text, 10, 64); err != nil {
				u.Errorf("%s: %v in %v", name, err, reply.Header)
			}
		}
		return n
	}
	h := handout{
		span: span{call, u.journal.now()}, id: reply.Header.Get("PQ-Id"), ack: reply.Header.Get("PQ-Ack"), fence: number("PQ-Fence"),
		failures: number("PQ-Failures"), interrupted: number("PQ-Interruptions"), returned: number("PQ-Returns"),
		counted: len(reply.Data) < 1000, repeated: again, dead: reply.Header.Get("PQ-Dead-Reason"),
	}
	u.journal.note(func() {
		it := u.journal.items[name]
		if it == nil {
			u.journal.wrong = append(u.journal.wrong, fmt.Sprintf("%q came out of %s, and nobody has pushed it: %v", name, u.queue, reply.Header))
			return
		}
		u.journal.compare(it, reply, h)
		if h.ack != "" {
			h.lease = max(lease, time.Nanosecond) // or that of the queue
			if lease >= long || u.chance(2) {
				u.held = append(u.held, &hold{it, h.ack, len(it.handouts)})
			}
		} else {
			it.ends = append(it.ends, event{h.span, "popped", certain})
		}
		it.handouts = append(it.handouts, h)
	})
	return true
}

// compare looks at what an item has in an answer.
func (j *journal) compare(it *item, reply *nats.Msg, h handout) {
	wrong := func(format string, args ...any) {
		j.wrong = append(j.wrong, it.name+": "+fmt.Sprintf(format, args...))
	}
	if string(reply.Data) != it.payload() {
		wrong("its payload has %d bytes, expected %d", len(reply.Data), len(it.payload()))
	}
	if color := reply.Header.Get("Color"); color != it.color {
		wrong("Color: %q, expected %q", color, it.color)
	}
	if key := reply.Header.Get("PQ-Key"); key != it.key {
		wrong("PQ-Key: %q, expected %q", key, it.key)
	}
	priority, known := reply.Header.Get("PQ-Priority"), false
	for _, p := range it.priorities {
		known = known || strconv.FormatInt(p, 10) == priority
	}
	if !known {
		wrong("PQ-Priority: %s, expected one of %v", priority, it.priorities)
	}
	if sum := 1 + h.failures + h.interrupted + h.returned; h.counted && h.ack != "" && reply.Header.Get("PQ-Deliveries") != strconv.FormatInt(sum, 10) {
		wrong("PQ-Deliveries: %s, expected %d of %v", reply.Header.Get("PQ-Deliveries"), sum, reply.Header)
	}
}
