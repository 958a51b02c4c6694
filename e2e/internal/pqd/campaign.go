package pqd

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

	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/testenv"
)

// Ops is how long a campaign is.
var Ops = flag.Int("pq.ops", 0, "operations of a campaign; 0: none")

var flagSeed = flag.Uint64("pq.seed", 0, "seed of random clients and faults; 0: a new one")

// Campaign is a pqd that clients use under faults.
type Campaign struct {
	Process *testenv.Process
	URL     string // where clients connect
	Random  *rand.Rand
	Fault   func(testing.TB) string // has something go wrong, and says what
	Faults  map[string]int
	Attempt time.Duration // for one answer; 0: a second

	moved atomic.Pointer[string] // where clients connect since nodes were replaced; nil: still at URL

	Promises []promise // of the queues, in turn; without any, items have no keys
	Queues   int       // that were begun
}

// promise is what a queue promises about keys.
type promise struct {
	keys  int // of its items; 0: they have none
	limit int64
	order bool
}

// AllPromises are those that histories know.
var AllPromises = []promise{{}, {keys: 9, limit: 2}, {keys: 6, order: true}, {keys: 9, limit: 1}}

// NewCampaign is one in which pqd is killed, stopped and paused.
func NewCampaign(t *testing.T) *Campaign {
	c := &Campaign{Process: testenv.Daemon(t), Random: Seeded(t), Faults: make(map[string]int), Promises: AllPromises}
	c.URL, c.Fault = c.Process.URL, c.end
	return c
}

// Seeded chooses what clients do, and the faults.
func Seeded(t *testing.T) *rand.Rand {
	seed := Seed()
	t.Logf("-pq.seed=%d chooses what clients and faults do; what meets what is up to the machine", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Seed is that of a campaign: a new one, unless a flag says which.
func Seed() uint64 {
	if *flagSeed != 0 {
		return *flagSeed
	}
	return rand.Uint64()
}

// histories are those of queues in use at the same time.
type histories struct {
	Workers   []*testenv.Worker
	Recorders []*history.Recorder
	answers   atomic.Int64
}

// Move has clients that connect from now on, those of a load that runs too, do so elsewhere.
func (c *Campaign) Move(url string) { c.moved.Store(&url) }

func (c *Campaign) Dial() func(...nats.Option) (*nats.Conn, error) {
	url := c.URL
	return func(options ...nats.Option) (*nats.Conn, error) {
		if moved := c.moved.Load(); moved != nil {
			return nats.Connect(*moved, options...)
		}
		return nats.Connect(url, options...)
	}
}

// Begin makes queues with some workers each.
func (c *Campaign) Begin(t testing.TB, name string, queues, workers int) *histories {
	h := &histories{}
	for q := range queues {
		recorder := history.NewRecorder()
		h.Recorders = append(h.Recorders, recorder)
		var p promise
		if len(c.Promises) > 0 {
			p = c.Promises[c.Queues%len(c.Promises)]
			c.Queues++
		}
		for id := range workers {
			w := &testenv.Worker{
				TB: t, ID: id, Queue: fmt.Sprintf("%s-%d", name, q), Dial: c.Dial(),
				Random:   rand.New(rand.NewPCG(c.Random.Uint64(), 0)),
				Recorder: recorder, Answers: &h.answers, Loses: true, Attempt: c.Attempt, Keys: p.keys,
			}
			w.Connect()
			if id == 0 && p.keys > 0 {
				w.Promise(p.limit, p.order)
			}
			h.Workers = append(h.Workers, w)
		}
	}
	return h
}

// Run has each worker do some steps, and causes a fault after each of the given numbers
// of answers.
func (c *Campaign) Run(t testing.TB, h *histories, steps int, faults []int64) {
	var clients sync.WaitGroup
	for _, w := range h.Workers {
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
		c.Faults[c.Fault(t)]++
	}
	<-gone
}

// end ends pqd in one way or another, or pauses it.
func (c *Campaign) end(t testing.TB) string {
	switch c.Random.IntN(5) {
	case 0, 1:
		c.Process.Kill(t)
		c.Process.Start(t)
		return "SIGKILL"
	case 2, 3:
		c.Process.Stop(t)
		c.Process.Start(t)
		return "SIGTERM"
	}
	c.Process.Pause(t)
	c.Moment()
	c.Process.Resume(t)
	return "SIGSTOP"
}

// Moment returns within two seconds.
func (c *Campaign) Moment() {
	<-time.After(time.Duration(c.Random.IntN(2000)) * time.Millisecond)
}

// End empties the queues, and returns the history of each.
func (h *histories) End() [][]history.Operation {
	var all [][]history.Operation
	for q, recorder := range h.Recorders {
		if h.Workers[0].Failed() {
			break
		}
		h.Workers[q*len(h.Workers)/len(h.Recorders)].Drain()
		all = append(all, recorder.Operations())
	}
	for _, w := range h.Workers {
		w.Close()
	}
	return all
}

// Moments are numbers of answers after which a fault happens.
func (c *Campaign) Moments(n int, answers int64) []int64 {
	var at []int64
	for range n {
		at = append(at, c.Random.Int64N(answers))
	}
	slices.Sort(at)
	return at
}

// Long is a history for the rules, short are some for the search.
func (c *Campaign) Long(t testing.TB, name string, workers, steps int, faults ...int64) int {
	t.Helper()
	h := c.Begin(t, name, 1, workers)
	for _, w := range h.Workers {
		w.Vanishes = true
	}
	c.Run(t, h, steps, faults)
	operations := slices.Concat(h.End()...)
	t.Log(history.Summary(operations))
	testenv.Judge(t, operations, history.One)
	return len(operations)
}

func (c *Campaign) Short(t testing.TB, name string, queues int, faults ...int64) int {
	t.Helper()
	h := c.Begin(t, name, queues, 4)
	c.Run(t, h, 10, faults)
	total := 0
	for _, operations := range h.End() {
		testenv.Judge(t, operations, history.One)
		testenv.Search(t, operations)
		total += len(operations)
	}
	return total
}
