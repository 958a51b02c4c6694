//go:build fdb

package stores_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// book records the answers that the clients of a queue got while the store and the
// bridges failed in every way.
type book struct {
	*testing.T
	server *testenv.Server
	room   chan struct{} // holds a value for every item that may be in the queue
	news   chan struct{} // gets a value for every push that is acknowledged, while it has room

	mu       sync.Mutex
	items    map[string]*booked       // by payload
	codes    map[string]int           // answers
	leases   map[string]int           // how they ended
	slowest  map[string]time.Duration // answer, by code
	lastPush time.Time                // acknowledged
	gap      time.Duration            // the longest without one
	ending   bool
}

// booked is an item.
type booked struct {
	pushed bool // it was acknowledged
	unsure bool // its push had no certain answer, and cannot be repeated
	done   bool // popped for good, or its lease was acknowledged
}

const (
	inQueue     = 500              // items in the queue at most
	answerLimit = 20 * time.Second // in which every request has an answer
	shortLease  = 10 * time.Second // for a client that does not receive its lease
)

func newBook(t *testing.T, server *testenv.Server) *book {
	return &book{
		T: t, server: server, room: make(chan struct{}, inQueue), news: make(chan struct{}, 1000),
		items: map[string]*booked{}, codes: map[string]int{}, leases: map[string]int{}, slowest: map[string]time.Duration{}, lastPush: time.Now(),
	}
}

// ask sends a request and returns the answer's code: 200 when it was done, 503
// when it certainly was not, and none without an answer.
func (b *book) ask(nc *nats.Conn, m *nats.Msg) (*nats.Msg, string) {
	m.Reply = nc.NewRespInbox()
	answers := make(chan *nats.Msg, 1)
	sub, err := nc.ChanSubscribe(m.Reply, answers) // NextMsg hides answers with status 503
	if err != nil {
		b.Error(err)
		return nil, "none"
	}
	defer sub.Unsubscribe()
	begin := time.Now()
	if err := nc.PublishMsg(m); err != nil {
		b.Error(err)
		return nil, "none"
	}
	var answer *nats.Msg
	code := "none"
	select {
	case answer = <-answers:
		if code = answer.Header.Get("Nats-Service-Error-Code"); code == "" {
			code = "200"
			if answer.Header.Get("Status") == "503" {
				code = "503" // by the server: no responders
			}
		}
	case <-time.After(answerLimit):
	}
	took := time.Since(begin)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.codes[code]++
	b.slowest[code] = max(b.slowest[code], took.Round(time.Millisecond))
	return answer, code
}

// pushes pushes until ctx ends. With ids a push is repeated until it is
// acknowledged; without, as long as it certainly was not done.
func (b *book) pushes(ctx context.Context, name string, ids bool) {
	nc := b.server.Connect(b)
	for n := 0; ; n++ {
		select {
		case b.room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		payload := fmt.Sprintf("%s-%d", name, n)
		item := &booked{}
		b.mu.Lock()
		b.items[payload] = item
		b.mu.Unlock()
		for code := ""; code != "200"; {
			m := &nats.Msg{Subject: fmt.Sprintf("pq.jobs.push.%d", n%5), Data: []byte(payload), Header: nats.Header{}}
			if ids {
				m.Header.Set("Nats-Msg-Id", payload)
			}
			_, code = b.ask(nc, m)
			b.mu.Lock()
			switch code {
			case "200":
				item.pushed = true
				b.gap, b.lastPush = max(b.gap, time.Since(b.lastPush)), time.Now()
			case "503", "429", "409":
			case "504", "none":
				item.unsure = !ids
			default:
				b.Errorf("a push was answered %s", code)
			}
			b.mu.Unlock()
			if code == "504" && !ids || code == "none" && !ids {
				<-b.room
				break
			}
		}
		if item.pushed {
			select {
			case b.news <- struct{}{}:
			default:
			}
		}
	}
}

// pops pops until the queue is empty and the book ends: plainly, with an id by which it
// repeats the pop, or with a lease that it acknowledges.
func (b *book) pops(name string, lease bool) {
	nc := b.server.Connect(b)
	for n := 0; ; n++ {
		b.mu.Lock()
		ending := b.ending
		b.mu.Unlock()
		var answer *nats.Msg
		code := "503"
		for code == "503" || code == "429" || code == "409" || code == "504" || code == "none" {
			m := &nats.Msg{Subject: "pq.jobs.pop.min", Header: nats.Header{}}
			if lease {
				m.Header.Set("PQ-Lease", shortLease.String())
			} else {
				m.Header.Set("Nats-Msg-Id", fmt.Sprintf("%s-%d", name, n))
			}
			if !ending {
				m.Header.Set("PQ-Wait", "1s")
			}
			answer, code = b.ask(nc, m)
		}
		switch {
		case code == "200":
			b.popped(nc, answer, lease)
		case code == "404" && answer.Header.Get("PQ-Reason") == "empty" && ending:
			return
		case code != "404" && code != "408":
			b.Errorf("a pop was answered %s: %v", code, answer.Header)
			return
		}
	}
}

// popped records a popped item, and settles its lease.
func (b *book) popped(nc *nats.Conn, m *nats.Msg, lease bool) {
	b.mu.Lock()
	item := b.items[string(m.Data)]
	switch {
	case item == nil:
		b.Errorf("popped %q, which was never pushed", m.Data)
		item = &booked{}
	case item.done:
		b.Errorf("item %s came again", m.Data)
	}
	b.mu.Unlock()
	if !lease {
		b.done(item)
		return
	}
	for tried := false; ; tried = true {
		answer, code := b.ask(nc, &nats.Msg{Subject: m.Reply, Data: []byte("+ACK")})
		switch code {
		case "200":
			b.ended("acknowledged")
			b.done(item)
			return
		case "410":
			if reason := answer.Header.Get("PQ-Reason"); reason == "gone" && tried {
				b.ended("acknowledged by an attempt without an answer")
				b.done(item)
			} else {
				b.ended("lost, " + reason)
			}
			return
		case "503", "504", "429", "none":
		default:
			b.Errorf("an acknowledgement was answered %s", code)
			return
		}
	}
}

func (b *book) ended(how string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leases[how]++
}

func (b *book) done(item *booked) {
	b.mu.Lock()
	unsure := item.unsure
	item.done = true
	b.mu.Unlock()
	if !unsure { // else its room was given back before
		<-b.room
	}
}

// progress returns when pushes go on.
func (b *book) progress(after string) {
	b.Helper()
	for len(b.news) > 0 {
		<-b.news
	}
	begin, limit := time.Now(), time.After(time.Minute)
	for range 20 {
		select {
		case <-b.news:
		case <-limit:
			b.Fatalf("nothing was pushed after %s", after)
		}
	}
	b.Logf("20 pushes after %s took %v", after, time.Since(begin).Round(time.Millisecond))
}

// run has clients push and as many others pop while faults runs. Then it checks that
// every acknowledged item was popped once.
func (b *book) run(clients int, faults func()) {
	b.Helper()
	pushing, stop := context.WithCancel(b.Context())
	defer stop()
	var pushers, poppers sync.WaitGroup
	for i := range clients {
		pushers.Go(func() { b.pushes(pushing, fmt.Sprint("push-", i), i%2 == 0) })
		poppers.Go(func() { b.pops(fmt.Sprint("pop-", i), i%2 == 0) })
	}
	b.progress("the start")
	faults()
	b.progress("all of it")
	stop()
	pushers.Wait()
	b.mu.Lock()
	b.ending = true
	b.mu.Unlock()
	poppers.Wait()

	pushed, unsure := 0, 0
	for payload, item := range b.items {
		if item.pushed {
			pushed++
			if !item.done {
				b.Errorf("item %s was acknowledged and is lost", payload)
			}
		} else if item.unsure {
			unsure++
		} else if item.done {
			b.Errorf("item %s certainly was not pushed, and was popped", payload)
		}
	}
	b.Logf("%d acknowledged pushes, %d without a certain answer; leases: %v; answers: %v", pushed, unsure, b.leases, b.codes)
	b.Logf("the longest time without an acknowledged push: %s; the slowest answers: %v", b.gap.Round(time.Millisecond), b.slowest)
	if b.codes["none"] > 0 {
		b.Errorf("%d requests had no answer within %s", b.codes["none"], answerLimit)
	}
}
