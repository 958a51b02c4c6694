package process

import (
	"context"
	"fmt"
	"time"
)

// ShutdownLimit is below the time after which service managers kill a process.
const ShutdownLimit = 10 * time.Second

// Parts of ShutdownLimit. The rest is for closing the store.
const (
	TellLimit  = 2 * time.Second // for the embedded NATS server to announce its stop; it may first give leaderships away for a second
	DrainLimit = 7 * time.Second // for answers to reach the NATS server
	ReadLimit  = 9 * time.Second // and from there, if it is embedded, the clients
)

// Await returns the error from done, or an error if none comes within the limit after ctx
// has ended.
func Await(ctx context.Context, done <-chan error, limit time.Duration) error {
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return fmt.Errorf("shutdown took longer than %s; acknowledged items are safe", limit)
	}
}
