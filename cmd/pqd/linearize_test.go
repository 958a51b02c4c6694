package main_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/history"
	"github.com/pqbridge/pqbridge/testenv"
)

var (
	flagOps     = flag.Int("pq.ops", 0, "operations of a campaign; 0: none")
	flagSeed    = flag.Uint64("pq.seed", 0, "seed of random clients and faults; 0: a new one")
	flagHistory = flag.String("pq.history", "", "judge the history in this file")
)

// campaign is a pqd that clients use under faults.
type campaign struct {
	process *testenv.Process
	url     string // where clients connect
	random  *rand.Rand
	fault   func(testing.TB) string // has something go wrong, and says what
	faults  map[string]int
	attempt time.Duration // for one answer; 0: a second

	promises []promise // of the queues, in turn; without any, items have no keys
	queues   int       // that were begun
}

// promise is what a queue promises about keys.
type promise struct {
	keys  int // of its items; 0: they have none
	limit int64
	order bool
}

// allPromises are those that histories know.
var allPromises = []promise{{}, {keys: 9, limit: 2}, {keys: 6, order: true}, {keys: 9, limit: 1}}

// newCampaign is one in which pqd is killed, stopped and paused.
func newCampaign(t *testing.T) *campaign {
	c := &campaign{process: testenv.Daemon(t), random: seeded(t), faults: make(map[string]int), promises: allPromises}
	c.url, c.fault = c.process.URL, c.end
	return c
}

// seeded chooses what clients do, and the faults.
func seeded(t *testing.T) *rand.Rand {
	seed := *flagSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-pq.seed=%d chooses what clients and faults do; what meets what is up to the machine", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// histories are those of queues in use at the same time.
type histories struct {
	workers   []*testenv.Worker
	recorders []*history.Recorder
	answers   atomic.Int64
}

func (c *campaign) dial() func(...nats.Option) (*nats.Conn, error) {
	url := c.url
	return func(options ...nats.Option) (*nats.Conn, error) { return nats.Connect(url, options...) }
}

// begin makes queues with some workers each.
func (c *campaign) begin(t testing.TB, name string, queues, workers int) *histories {
	h := &histories{}
	for q := range queues {
		recorder := history.NewRecorder()
		h.recorders = append(h.recorders, recorder)
		var p promise
		if len(c.promises) > 0 {
			p = c.promises[c.queues%len(c.promises)]
			c.queues++
		}
		for id := range workers {
			w := &testenv.Worker{
				TB: t, ID: id, Queue: fmt.Sprintf("%s-%d", name, q), Dial: c.dial(),
				Random:   rand.New(rand.NewPCG(c.random.Uint64(), 0)),
				Recorder: recorder, Answers: &h.answers, Loses: true, Attempt: c.attempt, Keys: p.keys,
			}
			w.Connect()
			if id == 0 && p.keys > 0 {
				w.Promise(p.limit, p.order)
			}
			h.workers = append(h.workers, w)
		}
	}
	return h
}

// run has each worker do some steps, and causes a fault after each of the given numbers
// of answers.
func (c *campaign) run(t testing.TB, h *histories, steps int, faults []int64) {
	var clients sync.WaitGroup
	for _, w := range h.workers {
		clients.Go(func() {
			for range steps {
				w.Step()
			}
			w.Finish()
		})
	}
	gone := make(chan struct{})
	go func() {
		clients.Wait()
		close(gone)
	}()
	for _, at := range faults {
		for h.answers.Load() < at {
			select {
			case <-gone:
				return // there will be no more answers
			case <-time.After(time.Millisecond):
			}
		}
		c.faults[c.fault(t)]++
	}
	<-gone
}

// end ends pqd in one way or another, or pauses it.
func (c *campaign) end(t testing.TB) string {
	switch c.random.IntN(5) {
	case 0, 1:
		c.process.Kill(t)
		c.process.Start(t)
		return "SIGKILL"
	case 2, 3:
		c.process.Stop(t)
		c.process.Start(t)
		return "SIGTERM"
	}
	c.process.Pause(t)
	<-time.After(time.Duration(c.random.IntN(2000)) * time.Millisecond)
	c.process.Resume(t)
	return "SIGSTOP"
}

// end empties the queues, and returns the history of each.
func (h *histories) end() [][]history.Operation {
	var all [][]history.Operation
	for q, recorder := range h.recorders {
		if h.workers[0].Failed() {
			break
		}
		h.workers[q*len(h.workers)/len(h.recorders)].Drain()
		all = append(all, recorder.Operations())
	}
	for _, w := range h.workers {
		w.Close()
	}
	return all
}

// moments are numbers of answers after which a fault happens.
func (c *campaign) moments(n int, answers int64) []int64 {
	var at []int64
	for range n {
		at = append(at, c.random.Int64N(answers))
	}
	slices.Sort(at)
	return at
}

// long is a history for the rules, short are some for the search.
func (c *campaign) long(t testing.TB, name string, workers, steps int, faults ...int64) int {
	t.Helper()
	h := c.begin(t, name, 1, workers)
	for _, w := range h.workers {
		w.Vanishes = true
	}
	c.run(t, h, steps, faults)
	operations := slices.Concat(h.end()...)
	t.Log(history.Summary(operations))
	testenv.Judge(t, operations, history.One)
	return len(operations)
}

func (c *campaign) short(t testing.TB, name string, queues int, faults ...int64) int {
	t.Helper()
	h := c.begin(t, name, queues, 4)
	c.run(t, h, 10, faults)
	total := 0
	for _, operations := range h.end() {
		testenv.Judge(t, operations, history.One)
		testenv.Search(t, operations)
		total += len(operations)
	}
	return total
}

// However pqd ends while clients push, pop, lease and settle, and whatever connections
// and answers are lost, every guarantee holds: nothing acknowledged is lost, no item is
// delivered twice, no leases overlap, no item is passed over.
func TestEndsUnderLoad(t *testing.T) {
	t.Parallel()
	c := newCampaign(t)
	for range allPromises {
		c.long(t, fmt.Sprint("long-", c.queues), 8, 75, 200, 400)
	}
	c.short(t, "short", 8, 80, 180)
	t.Logf("faults: %v", c.faults)
	c.process.Stop(t)
}

// TestLinearize is TestEndsUnderLoad for as long as -pq.ops says.
func TestLinearize(t *testing.T) {
	t.Parallel()
	if *flagOps == 0 {
		t.Skip("no -pq.ops")
	}
	c := newCampaign(t)
	done := 0
	for round := 0; done < *flagOps && !t.Failed(); round++ {
		name := fmt.Sprintf("r%d", round)
		if round%3 == 2 {
			done += c.short(t, name, 40, 100, 500, 900, 1300)
			continue
		}
		const workers, steps = 16, 1000
		done += c.long(t, name, workers, steps, c.moments(4, workers*steps)...)
	}
	t.Logf("%d operations, faults: %v", done, c.faults)
	c.process.Stop(t)
}

// TestHistory judges a history that a failed test has written.
func TestHistory(t *testing.T) {
	t.Parallel()
	if *flagHistory == "" {
		t.Skip("no -pq.history")
	}
	operations, err := history.Read(*flagHistory)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Judge(t, operations, history.One)
	if len(operations) <= 200 {
		testenv.Search(t, operations)
	}
}
