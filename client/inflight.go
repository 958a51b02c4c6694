package client

import (
	"context"
	"sync"
)

// maxInFlightBytes bounds the bytes of the pushes in flight: bridges accept 64 MiB from all their clients.
const maxInFlightBytes = 16 << 20

// inFlight bounds the pushes that were sent and not answered yet.
type inFlight struct {
	most int

	mu    sync.Mutex
	n     int
	bytes int
	fewer chan struct{} // closed when a push leaves; nil while no caller waits
}

func newInFlight(most int) *inFlight { return &inFlight{most: most} }

// acquire waits until there is room for a push.
func (f *inFlight) acquire(ctx context.Context, size int) error {
	return f.until(ctx, func() bool {
		fits := f.n < f.most && (f.bytes == 0 || f.bytes+size <= maxInFlightBytes)
		if fits {
			f.n++
			f.bytes += size
		}
		return fits
	})
}

// release gives the room back.
func (f *inFlight) release(size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	f.bytes -= size
	if f.fewer != nil {
		close(f.fewer)
		f.fewer = nil
	}
}

// flush waits until no push is in flight.
func (f *inFlight) flush(ctx context.Context) error {
	return f.until(ctx, func() bool { return f.n == 0 })
}

// until waits until is returns true. It calls is with the lock held.
func (f *inFlight) until(ctx context.Context, is func() bool) error {
	for {
		f.mu.Lock()
		if is() {
			f.mu.Unlock()
			return nil
		}
		if f.fewer == nil {
			f.fewer = make(chan struct{})
		}
		fewer := f.fewer
		f.mu.Unlock()
		select {
		case <-fewer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
