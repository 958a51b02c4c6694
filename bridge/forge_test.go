package bridge_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

var flagForge = flag.Duration("pq.forge", 2*time.Second, "how long a client forges messages beside four bridges")

// impostor is a client that may publish and subscribe to inboxes, and to nothing else. It hears what
// bridges say to each other, repeats it, and answers in their place.
type impostor struct {
	*client
	mu    sync.Mutex
	heard []*nats.Msg // the last ones
	next  int
	said  atomic.Int64
	began time.Time
}

// forgerMemory is how many messages a forger has at hand.
const forgerMemory = 512

func (f *impostor) say(subject, reply string, data []byte, header nats.Header) {
	if subject == "" {
		return
	}
	if err := f.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: data, Header: header}); err != nil {
		f.Error(err)
	}
	f.said.Add(1)
}

// hear answers a message between bridges as fast as it can, and keeps it.
func (f *impostor) hear(m *nats.Msg) {
	if strings.Contains(m.Subject, ".to.") {
		f.answer(m)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.heard) < forgerMemory {
		f.heard = append(f.heard, m)
		return
	}
	f.heard[f.next%forgerMemory] = m
	f.next++
}

// answer says on the subject for an answer what could be one. It says only at times that nobody is
// there, because bridges that hear so pass nothing on for a moment.
func (f *impostor) answer(m *nats.Msg) {
	f.say(m.Reply, "", []byte("-"), nil)
	if time.Since(f.began)/time.Second%3 == 0 {
		f.say(m.Reply, "", nil, nats.Header{"Status": {"503"}})
		f.say(m.Reply, "", nil, nats.Header{"Status": {"503"}, "Nats-Subject": {m.Subject}})
	}
	f.say(m.Reply, "", []byte("+"), nil)
	f.say(m.Reply, "", nil, nil)
}

// any returns one of the last messages.
func (f *impostor) any() *nats.Msg {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.heard) == 0 {
		return nil
	}
	return f.heard[rand.IntN(len(f.heard))]
}

// flood repeats and mixes what it has heard until the end.
func (f *impostor) flood(ctx context.Context) {
	for ctx.Err() == nil {
		for range 32 {
			m, other := f.any(), f.any()
			if m == nil {
				break
			}
			f.answer(m)
			f.say(m.Reply, "", other.Data, nil)
			f.say(m.Subject, m.Reply, m.Data, nil)
			f.say(m.Subject, other.Reply, other.Data, nil)
			f.say(other.Subject, m.Reply, m.Data, m.Header)
		}
		if err := f.FlushTimeout(testenv.Patience()); err != nil {
			f.Error(err)
			return
		}
	}
}

// popped are the items that clients got.
type popped struct {
	mu     sync.Mutex
	items  map[string]int // how often each item came
	twice  int            // requests that got two items
	codes  map[string]int // of answers without an item
	pops   int
	pushed int
}

// left is how many items were pushed, or are about to be, and have not come.
func (p *popped) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pushed - len(p.items)
}

// popper is a client that pops.
type popper struct {
	*client
	*popped
	inbox string
	n     int // of requests
	all   answers
	got   map[string]bool // requests that got an item
}

func (p *popped) popper(c *client) *popper {
	inbox := c.NewInbox()
	return &popper{client: c, popped: p, inbox: inbox, all: c.hear(inbox + ".*"), got: make(map[string]bool)}
}

// pop pops while more says so, one request after the other.
func (p *popper) pop(lease bool, more func() bool) {
	c, inbox := p.client, p.inbox
	for more() {
		p.n++
		reply := fmt.Sprint(inbox, ".", p.n)
		m := &nats.Msg{Subject: "pq.jobs.pop.min", Reply: reply, Header: h("PQ-Wait", "100ms")}
		if lease {
			m.Header.Set("PQ-Lease", "1h")
		}
		if err := c.PublishMsg(m); err != nil {
			c.Error(err)
			return
		}
		for answered := false; !answered; {
			select {
			case m := <-p.all.came:
				answered = m.Subject == reply
				p.count(m)
				if m.Reply != "" {
					c.accepted(c.raw(m.Reply, "+ACK"))
				}
			case <-testenv.Late():
				c.Errorf("a pop has no answer; %d items are left", p.left())
				return
			}
		}
	}
}

// end counts what comes late, or once too often.
func (p *popper) end() {
	if err := p.FlushTimeout(testenv.Patience()); err != nil {
		p.Error(err)
	}
	for len(p.all.came) > 0 {
		p.count(<-p.all.came)
	}
}

func (p *popper) count(m *nats.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Header.Get("PQ-Id") == "" {
		p.codes[m.Header.Get("Status")]++
		return
	}
	p.pops++
	p.items[string(m.Data)]++
	if p.got[m.Subject] {
		p.twice++
	}
	p.got[m.Subject] = true
}

// push has a client push until the time is over, as long as few items lie there.
func (p *popped) push(ctx context.Context, c *client, name int) {
	for n := 0; ctx.Err() == nil; n++ {
		if p.left() > 2000 {
			if err := c.FlushTimeout(testenv.Patience()); err != nil {
				c.Error(err)
			}
			continue
		}
		p.mu.Lock()
		p.pushed++
		p.mu.Unlock()
		c.push("pq.jobs.push.5", fmt.Sprint(name, "-", n))
	}
}

// A client that may do nothing but use inboxes floods four bridges on one store with what they
// say to each other, and with all answers that it can make. Each request is served once.
func TestForger(t *testing.T) {
	t.Parallel()
	u := serverWithUsers(t, map[string]subjects.Permissions{
		"forger": {Publish: []string{subjects.Inbox}, Subscribe: []string{subjects.Inbox}},
		"client": {Publish: []string{"pq.jobs.push.5", "pq.jobs.pop.min", "pq.jobs.ack.*.*", "pq.jobs.info"}, Subscribe: []string{subjects.Inbox}},
	})
	var bridges []*bridge.Bridge
	for range 4 {
		bridges = append(bridges, u.start(t, bridge.Options{}))
	}
	f := &impostor{client: u.connect(t, "forger").client, began: time.Now()}
	if _, err := f.Subscribe(peers.Inbox(u.env.Store.ID())+".>", f.hear); err != nil {
		t.Fatal(err)
	}
	if err := f.FlushTimeout(testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	p := &popped{items: make(map[string]int), codes: make(map[string]int)}
	duration := time.Duration(nightly.Fewer(int(*flagForge)))
	least, end := context.WithTimeout(t.Context(), duration)
	defer end()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	floods, stop := context.WithCancel(t.Context())
	var flood, clients sync.WaitGroup
	flood.Go(func() { f.flood(floods) })
	for i := range 4 {
		pusher := u.connect(t, "client").client
		clients.Go(func() { p.push(ctx, pusher, i) })
	}
	var poppers []*popper
	for i := range 24 {
		popper := p.popper(u.connect(t, "client").client)
		poppers = append(poppers, popper)
		clients.Go(func() { popper.pop(i%4 == 0, func() bool { return ctx.Err() == nil }) })
	}
	clients.Go(func() {
		for _, b := range bridges {
			bridge.Contest(b, "jobs")
		}
	})
	passed := func() (n int64) {
		for _, b := range bridges {
			of, _ := bridge.Passed(b)
			n += of
		}
		return n
	}
	testenv.Await(t, "requests are passed on and forged", func() bool { return least.Err() != nil && passed() > 0 && f.said.Load() > 0 })
	cancel()
	clients.Wait()
	// What is given up may still be taken for some seconds.
	last := p.popper(u.connect(t, "client").client)
	for over := testenv.BeginWait(); p.left() > 0 && !over.Over() && !t.Failed(); {
		last.pop(false, func() bool { return last.info("jobs").Ready > 0 })
		for _, p := range poppers {
			p.end()
		}
	}
	stop()
	flood.Wait()
	for _, p := range append(poppers, last) {
		p.end()
	}

	again := 0
	for _, n := range p.items {
		again += n - 1
	}
	lost := p.pushed - len(p.items)
	t.Logf("%s: %d items pushed, %d pops, answers without an item %v, %d requests passed on, %d forgeries; %d requests got two items, %d items came again, %d are lost",
		duration, p.pushed, p.pops, p.codes, passed(), f.said.Load(), p.twice, again, lost)
	if p.twice > 0 || again > 0 || lost > 0 {
		t.Error("expected each request to be served once")
	}
	if passed() == 0 || f.said.Load() == 0 || p.pops == 0 {
		t.Error("nothing is passed on, or nothing is forged")
	}
}
