package explain

import (
	"maps"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// Asks remembers for which bands of a queue clients asked lately: a worker counts even if it does not wait at the
// moment.
type Asks struct {
	now func() time.Time

	mu     sync.Mutex
	queues map[string][]ask
	swept  time.Time // when queues were forgotten last
}

type ask struct {
	band  fdbpq.Band
	until time.Time // the ask counts
}

// AsksLast is how long an ask counts.
const AsksLast = time.Minute

// Bounds: queues, and bands of each.
const (
	maxAsked      = 4096
	maxAskedBands = 8
)

// NewAsks remembers nothing yet.
func NewAsks(now func() time.Time) *Asks { return &Asks{now: now, queues: make(map[string][]ask)} }

// Note notes that a client asks for items, which counts for some time.
func (a *Asks) Note(queue string, band fdbpq.Band, lasts time.Duration) {
	now := a.now()
	until := now.Add(lasts)
	a.mu.Lock()
	defer a.mu.Unlock()
	asks, known := a.queues[queue]
	if !known && len(a.queues) >= maxAsked {
		a.makeRoom(now)
	}
	oldest := 0
	for i := range asks {
		if asks[i].band == band {
			if until.After(asks[i].until) {
				asks[i].until = until
			}
			return
		}
		if asks[i].until.Before(asks[oldest].until) {
			oldest = i
		}
	}
	if len(asks) < maxAskedBands {
		a.queues[queue] = append(asks, ask{band, until})
		return
	}
	asks[oldest] = ask{band, until}
}

// makeRoom forgets queues that no client asks any more, once a second at most, or else any queue.
func (a *Asks) makeRoom(now time.Time) {
	if now.Sub(a.swept) > time.Second {
		a.swept = now
		maps.DeleteFunc(a.queues, func(_ string, asks []ask) bool { return len(lately(asks, now)) == 0 })
	}
	if len(a.queues) < maxAsked {
		return
	}
	for some := range a.queues {
		delete(a.queues, some)
		return
	}
}

func lately(asks []ask, now time.Time) (bands []fdbpq.Band) {
	for _, one := range asks {
		if now.Before(one.until) {
			bands = append(bands, one.band)
		}
	}
	return bands
}

// Lately returns the bands for which asks still count.
func (a *Asks) Lately(queue string) []fdbpq.Band {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	return lately(a.queues[queue], now)
}
