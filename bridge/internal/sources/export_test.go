package sources

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
)

// Clocked gives runners another time.
func Clocked(r *Runners, now func() time.Time, after func(time.Duration) <-chan time.Time) *Runners {
	r.clock = clock{now, after}
	return r
}

// Pull waits for messages of a stream until ctx ends or a message comes.
func Pull(ctx context.Context, nc *nats.Conn, now func() time.Time, after func(time.Duration) <-chan time.Time) error {
	p, err := newPull(newStream(nc, "", "ORDERS"), clock{now, after}, "c", 10, 2)
	if err != nil {
		return err
	}
	defer p.close()
	_, _, err = p.next(ctx, nil, nil)
	return err
}
