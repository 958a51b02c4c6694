package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// spread says which queues clients ask; without queues, the one of all other loads.
type spread struct {
	Queues int
	Zipf   bool // the first ones most often, by Zipf's law with exponent 1.1; otherwise each as often
}

// spreads are all that -queues measures. Others are compared with the first.
var spreads = []spread{{Queues: 1}, {Queues: 100}, {Queues: 1000}, {Queues: 10_000}, {Queues: 10_000, Zipf: true}}

// spreadClients are how many clients there are.
var spreadClients = []int{64, 256}

// spreadVerbs are what they do.
var spreadVerbs = []string{verbPush, verbPop, verbLease}

func (s spread) String() string {
	switch {
	case s.Queues == 1:
		return "1 queue"
	case s.Zipf:
		return number(float64(s.Queues)) + " queues, Zipf"
	}
	return number(float64(s.Queues)) + " queues"
}

func (s spread) names() []string {
	kind := "even"
	if s.Zipf {
		kind = "zipf"
	}
	names := make([]string, s.Queues)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d-%d", kind, s.Queues, i)
	}
	return names
}

// picker chooses queues by their numbers.
func (s spread) picker() func() uint64 {
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	if s.Zipf {
		return rand.NewZipf(random, 1.1, 1, uint64(s.Queues-1)).Uint64
	}
	return func() uint64 { return random.Uint64N(uint64(s.Queues)) }
}

// queueClient is a client that asks the queue that it is told.
type queueClient interface {
	pushTo(queue string, priority int, payload []byte) error
	popFrom(queue string) error
	leaseFrom(queue string) error
}

// line has the queues of items in the order in which they were pushed, so that every pop
// asks a queue that has an item.
type line struct {
	mu     sync.Mutex
	queues []string
}

func (l *line) add(queue string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queues = append(l.queues, queue)
}

func (l *line) next() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queues) == 0 {
		return "", errEmpty
	}
	queue := l.queues[0]
	l.queues = l.queues[1:]
	return queue, nil
}

// operationOnQueues is the operation of a verb on any of the queues.
func operationOnQueues(c client, s step, names []string, left *line, items *payloads) func() error {
	on, can := c.(queueClient)
	if !can {
		return func() error { return errNoSuchVerb }
	}
	if s.Verb == verbPush {
		pick := s.Spread.picker()
		return func() error {
			queue, payload := names[pick()], items.next()
			err := on.pushTo(queue, items.priority(), payload)
			if err == nil {
				left.add(queue)
			}
			return err
		}
	}
	take := on.popFrom
	if s.Verb == verbLease {
		take = on.leaseFrom
	}
	return func() error {
		queue, err := left.next()
		if err == nil {
			err = take(queue)
		}
		return err
	}
}

func (c *pqdClient) pushTo(queue string, priority int, payload []byte) error {
	return c.pushAt("pq."+queue+".push."+strconv.Itoa(priority), payload)
}

func (c *pqdClient) popFrom(queue string) error {
	_, err := c.take("pq."+queue+".pop.min", nil)
	return err
}

func (c *pqdClient) leaseFrom(queue string) error { return c.leaseAt("pq." + queue + ".pop.min") }

// measureQueues measures pqd alone, on each spread by turns.
func (r *runner) measureQueues(ctx context.Context) error {
	pqd := r.server(namePQD)
	if pqd == nil {
		return nil // the notes say why
	}
	pqd.thaw()
	if err := makeQueues(pqd.addr); err != nil {
		return err
	}
	for round := range r.plan.rounds {
		if err := r.probeDisk(round); err != nil {
			return err
		}
		for _, clients := range spreadClients {
			for i := range spreads {
				s := spreads[(i+round)%len(spreads)]
				measures, err := r.site.drive(ctx, pqd, clients, r.plan.spreadSteps(s)...)
				if err != nil {
					return err
				}
				r.results.add(namePQD, clients, round, s.String(), measures)
			}
		}
		r.progress("round %d of %d is done", round+1, r.plan.rounds)
	}
	return nil
}

// makeQueues pushes an item to every queue, which stays: the first push to a queue costs
// more than those that follow.
func makeQueues(addr string) error {
	nc, err := connectNATS(addr)
	if err != nil {
		return err
	}
	defer nc.close()
	var names []string
	for _, s := range spreads {
		names = append(names, s.names()...)
	}
	items, n := newPayloads(0), 0
	return nc.publish(len(names), func() *nats.Msg {
		n++
		return &nats.Msg{Subject: "pq." + names[n-1] + ".push", Data: slices.Clone(items.next())}
	}, pushed)
}

// spreadSteps leave as many items as they found.
func (p *plan) spreadSteps(s spread) []step {
	warm, long := p.phase/5, slow*p.phase
	steps := []step{
		{Verb: verbPush, Limit: warm, Warm: true}, {Verb: verbPop, Share: 1, Limit: long, Warm: true},
		{Verb: verbPush, Limit: p.phase}, {Verb: verbPop, Share: 1, Limit: long},
		{Verb: verbPush, Limit: p.phase}, {Verb: verbLease, Share: 1, Limit: long},
	}
	for i := range steps {
		steps[i].Spread = s
	}
	return steps
}

// writeQueues is all that -queues finds out.
func (r *results) writeQueues(w io.Writer) {
	for _, clients := range spreadClients {
		fmt.Fprintf(w, "Operations a second of %d clients on so many queues (and what part of those on one queue that is); p50 / p99; µs of processor time of server / load\n\n", clients)
		t := table{{""}}
		for _, verb := range spreadVerbs {
			t[0] = append(t[0], verb, "ms", "µs")
		}
		for _, s := range spreads {
			cells := []string{s.String()}
			for _, verb := range spreadVerbs {
				rate := r.rate(namePQD, verb, clients, s.String())
				ms := func(read func(*sample) time.Duration) float64 {
					return r.median(namePQD, verb, clients, s.String(), func(m *sample) float64 { return read(m).Seconds() * 1000 })
				}
				servers, load := r.costs(namePQD, verb, clients, s.String())
				cells = append(cells, fmt.Sprintf("%s (%.2f)", number(rate), r.ofOneQueue(verb, clients, s)),
					fmt.Sprintf("%.1f / %.1f", ms(func(m *sample) time.Duration { return m.P50 }), ms(func(m *sample) time.Duration { return m.P99 })),
					fmt.Sprintf("%d / %d", servers.Microseconds(), load.Microseconds()))
			}
			t.add(cells...)
		}
		t.write(w)
	}
}

// ofOneQueue is a rate as a part of the one with one queue; 0 when one is missing.
func (r *results) ofOneQueue(verb string, clients int, s spread) float64 {
	return ratio(r.rate(namePQD, verb, clients, s.String()), r.rate(namePQD, verb, clients, spreads[0].String()))
}

func (r *results) hasQueues() bool {
	return slices.ContainsFunc(r.Samples, func(s sample) bool { return s.Backlog == spreads[0].String() })
}
