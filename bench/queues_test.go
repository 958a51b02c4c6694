package main

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder is a client that remembers what it was asked.
type recorder struct {
	client
	mu             *sync.Mutex
	pushed, popped map[string]int
}

func (r recorder) count(queues map[string]int, queue string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	queues[queue]++
	return nil
}

func (r recorder) pushTo(queue string, _ int, _ []byte) error { return r.count(r.pushed, queue) }
func (r recorder) popFrom(queue string) error                 { return r.count(r.popped, queue) }
func (r recorder) leaseFrom(queue string) error               { return r.count(r.popped, queue) }
func (recorder) settle() error                                { return nil }

// Clients pop what they pushed, each queue as often, and no more than that.
func TestPopsFollowPushes(t *testing.T) {
	const pushes = 5000
	for _, s := range spreads {
		r := recorder{mu: new(sync.Mutex), pushed: make(map[string]int), popped: make(map[string]int)}
		l := load{clients: []client{r, r, r}, items: []*payloads{newPayloads(1), newPayloads(2), newPayloads(3)}}
		for _, verb := range []string{verbPush, verbPop, verbPush, verbLease} {
			m, err := l.take(step{Verb: verb, N: pushes, Limit: time.Minute, Spread: s})
			if err != nil || m.N != pushes {
				t.Fatalf("%s: %s: found %d and %v, expected %d", s, verb, m.N, err, pushes)
			}
		}
		if !maps.Equal(r.pushed, r.popped) {
			t.Errorf("%s: popped %v, expected %v", s, r.popped, r.pushed)
		}
		if _, err := l.take(step{Verb: verbPop, N: 1, Limit: time.Minute, Spread: s}); !errors.Is(err, errEmpty) {
			t.Errorf("%s: one more pop: found %v, expected %v", s, err, errEmpty)
		}
	}
}

// Even spreads ask all queues as often as each other, and Zipf's law asks the first ones most.
func TestSpreads(t *testing.T) {
	for _, c := range []struct {
		spread
		least, most float64 // parts that are the first queue's
	}{
		{spread{Queues: 1}, 1, 1},
		{spread{Queues: 100}, 0.005, 0.02},
		{spread{Queues: 100, Zipf: true}, 0.2, 0.3},
	} {
		const n = 10_000
		counts := make([]int, c.Queues)
		pick := c.picker()
		for range n {
			counts[pick()]++
		}
		if first := float64(counts[0]) / n; first < c.least || first > c.most {
			t.Errorf("%s: the first queue has %.3f, expected %.3f to %.3f", c, first, c.least, c.most)
		}
		if last := counts[c.Queues-1]; last == 0 {
			t.Errorf("%s: nothing asks the last queue", c)
		}
	}
}

// The report of many queues compares each spread with one queue, and nothing else.
func TestReportOfQueues(t *testing.T) {
	var r results
	for i, s := range spreads {
		for _, clients := range spreadClients {
			for _, verb := range spreadVerbs {
				r.add(namePQD, clients, 0, s.String(), []measure{{Verb: verb, N: 1000 - 100*i, Seconds: 1}})
			}
		}
	}
	var out strings.Builder
	r.write(&out)
	for want, times := range map[string]int{"1,000 (1.00)": 6, "900 (0.90)": 6, "600 (0.60)": 6, "echo": 0} {
		if found := strings.Count(out.String(), want); found != times {
			t.Errorf("found %q %d times, expected %d:\n%s", want, found, times, &out)
		}
	}
}
