package fdbpq

import (
	"slices"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
)

// A queue that only a later program serves has timers, and may have kinds of them that this program does not know. They stay, and
// there may be many: so this process remembers up to which key there are no others. It looks at them again after a while, because
// the queue may be deleted, and made again in a format that it knows. The same holds for timers whose work waits for room.

const (
	// passedFor is how long a timer has been due before this process may remember it. No transaction takes so long, so none sets
	// a timer before one that is remembered.
	passedFor = 10 * time.Second

	// passedAgain is how long this process remembers timers.
	passedAgain = time.Minute
)

// passedOver are timers that a sweep has passed over.
type passedOver struct {
	queues inside.Passed // whose they are, of those for a later program
	short  shortage      // the greatest that one of them waits for to end
	behind []byte        // the last of them that may be remembered
}

// add passes over a timer, at a store time.
func (p *passedOver) add(key []byte, t layout.Timer, at int64) {
	if t.Due <= at-int64(passedFor) {
		p.behind = key
	}
}

// passedTimers are the timers that this process has passed over. Its methods may be called from any number of goroutines.
type passedTimers struct {
	mu     sync.Mutex
	behind []byte        // all timers up to this key; nil: none
	short  shortage      // the greatest that one of them waits for to end
	since  time.Duration // by the process's clock
}

// note remembers what a sweep has passed over.
func (p *passedTimers) note(over passedOver, now time.Duration) {
	if over.behind == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.behind == nil {
		p.since = now
	}
	p.behind, p.short = over.behind, max(p.short, over.short)
}

// last returns the last of the timers with which a sweep need not begin, nil without any, and for which shortage's end they wait.
func (p *passedTimers) last(now time.Duration, short shortage) (behind []byte, waits shortage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.behind != nil && (now-p.since >= passedAgain || p.short > short) {
		p.behind, p.short = nil, roomy
	}
	return slices.Clone(p.behind), p.short
}
