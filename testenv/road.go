package testenv

import (
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// Ways are the ways of some networks, which a test makes longer, or worse, while connections use them.
type Ways struct {
	mu     sync.Mutex
	way    time.Duration
	loss   float64
	random *rand.Rand // nil: nothing is lost
}

// Delay has everything take that long in each direction from now on, up to the number of bytes that may be under way.
func (w *Ways) Delay(way time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.way = way
}

// Lose has a share of all packets be lost from now on. TCP sends a lost packet again, and nothing behind it arrives before: what a
// program notices are connections that stall.
func (w *Ways) Lose(share float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loss = share
}

// resendAfter is when Linux sends a packet again that nobody has confirmed, at first. Each time it waits for twice as long.
const resendAfter = 200 * time.Millisecond

// takes is how long a packet is under way now. What was written at once is one.
func (w *Ways) takes() (total time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	total = w.way
	if w.random == nil {
		return total
	}
	for again := resendAfter; w.random.Float64() < w.loss; again *= 2 {
		total += again
	}
	return total
}

// road delivers bytes of a connection in their order, when their time under way is over.
type road struct {
	relay   *relay
	under   chan parcel
	arrived chan struct{} // closed when nothing is under way any more
}

type parcel struct {
	due   time.Time
	bytes []byte
}

// maxUnderWay is how many reads of a connection are under way at most.
const maxUnderWay = 4096

func (l *relay) road(to io.Writer) *road {
	r := &road{l, make(chan parcel, maxUnderWay), make(chan struct{})}
	go func() {
		defer close(r.arrived)
		wait := time.NewTimer(0)
		defer wait.Stop()
		for p := range r.under {
			wait.Reset(time.Until(p.due))
			select {
			case <-wait.C:
			case <-l.ended:
			}
			if _, err := to.Write(p.bytes); err != nil {
				l.cut(false)
			}
		}
	}()
	return r
}

func (r *road) Write(bytes []byte) (int, error) {
	select {
	case r.under <- parcel{time.Now().Add(r.relay.ways.takes()), slices.Clone(bytes)}:
		return len(bytes), nil
	case <-r.relay.ended:
		return 0, net.ErrClosed
	}
}

func (r *road) Close() error {
	close(r.under)
	<-r.arrived
	return nil
}
