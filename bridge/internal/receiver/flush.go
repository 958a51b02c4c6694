package receiver

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// flushPatience bounds the wait for a server that does not answer. If half of the time until the deadline is
// longer, the wait takes that half: the server's machine may be busy, and the rest of the shutdown needs the other
// half.
const flushPatience = 2 * time.Second

// Flush waits until the server has received all messages. Without a connection it
// does nothing. When ctx has ended before, it fails, even if the server were to answer at once.
func Flush(ctx context.Context, nc *nats.Conn) error {
	if !nc.IsConnected() {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience(ctx))
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

// patience is how long a flush waits.
func patience(ctx context.Context) time.Duration {
	if end, bounded := ctx.Deadline(); bounded {
		return max(flushPatience, time.Until(end)/2)
	}
	return flushPatience
}
