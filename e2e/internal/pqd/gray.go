package pqd

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/testenv"
)

// Load is what clients of a campaign do while something else happens.
type Load struct{ answers *atomic.Int64 }

// Rate is how many operations a second are answered, within some time from now on.
func (l *Load) Rate(within time.Duration) float64 {
	began, before := time.Now(), l.answers.Load()
	<-time.After(within)
	return float64(l.answers.Load()-before) / time.Since(began).Seconds()
}

// Meanwhile has workers use a queue until during returns, and judges what they saw.
func (c *Campaign) Meanwhile(t testing.TB, name string, workers int, during func(*Load)) {
	t.Helper()
	h := c.Begin(t, name, 1, workers)
	var over atomic.Bool
	var clients sync.WaitGroup
	for _, w := range h.Workers {
		w.Vanishes = true
		clients.Go(func() {
			for !over.Load() {
				w.Step()
			}
			w.Finish()
			w.Empty() // all at once: there may be thousands
		})
	}
	func() {
		defer clients.Wait()
		defer over.Store(true)
		during(&Load{&h.answers})
	}()
	operations := slices.Concat(h.End()...)
	t.Log(history.Summary(operations))
	testenv.Judge(t, operations, history.One)
}

// Turns is what changed among some nodes: who serves, and who leads their log.
type Turns struct {
	Takeovers, Elections, Losses int
}

// TurnsOf counts what nodes have logged, with PQ_LOG_LEVEL=debug.
func TurnsOf(nodes *testenv.Nodes) (n Turns) {
	for _, p := range nodes.All {
		log := p.Log()
		n.Takeovers += strings.Count(log, "kv/cluster: this member is active")
		n.Elections += strings.Count(log, "new stream leader for 'PQ_CLUSTER >")
		n.Losses += strings.Count(log, "a member is lost")
	}
	return n
}

// Sum is how many of them there were.
func (n Turns) Sum() int { return n.Takeovers + n.Elections + n.Losses }

// Since is what has changed since an earlier count.
func (n Turns) Since(before Turns) Turns {
	return Turns{n.Takeovers - before.Takeovers, n.Elections - before.Elections, n.Losses - before.Losses}
}

// Witness finds out how often a machine keeps a process for long that needs next to nothing from its processors. What nodes do then
// has a cause of its own.
type Witness struct {
	limit   time.Duration
	stalls  int
	longest time.Duration
	stop    chan struct{}
	stopped chan struct{}
}

// witnessed is how often a witness wants to run.
const witnessed = 10 * time.Millisecond

// NewWitness begins to count stalls that are longer than a limit.
func NewWitness(limit time.Duration) *Witness {
	w := &Witness{limit: limit, stop: make(chan struct{}), stopped: make(chan struct{})}
	go w.look()
	return w
}

func (w *Witness) look() {
	defer close(w.stopped)
	look := time.NewTicker(witnessed)
	defer look.Stop()
	for last := time.Now(); ; {
		select {
		case <-look.C:
		case <-w.stop:
			return
		}
		now := time.Now()
		late := now.Sub(last) - witnessed
		if w.longest = max(w.longest, late); late > w.limit {
			w.stalls++
		}
		last = now
	}
}

// End is how many stalls there were, and the longest time for which the witness was kept waiting.
func (w *Witness) End() (stalls int, longest time.Duration) {
	close(w.stop)
	<-w.stopped
	return w.stalls, w.longest
}

// Throttle lets a process run for a share of each period, and stops it for the rest, as a quota of the kernel does, until relief.
func Throttle(t testing.TB, p *testenv.Process, share float64, period time.Duration) (relief func()) {
	t.Helper()
	over, ended := make(chan struct{}), make(chan struct{})
	runs := time.Duration(share * float64(period))
	go func() {
		defer close(ended)
		for {
			p.Pause(t)
			select {
			case <-time.After(period - runs):
			case <-over:
			}
			p.Resume(t)
			select {
			case <-time.After(runs):
			case <-over:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(over)
		<-ended
	})
}
