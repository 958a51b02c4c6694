package receiver

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// flushPatience bounds the wait for a server that does not answer. When half of the
// time until the deadline is longer, the wait takes that: the server's machine may be
// busy, and the rest of the shutdown needs the other half.
const flushPatience = 2 * time.Second

// Flush waits until the server has received all messages. Without a connection it
// does nothing.
func Flush(ctx context.Context, nc *nats.Conn) error {
	if !nc.IsConnected() {
		return nil
	}
	patience := flushPatience
	if end, bounded := ctx.Deadline(); bounded {
		patience = max(patience, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}
