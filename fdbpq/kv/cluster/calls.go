package cluster

import (
	"context"
	"time"
)

// attemptFor is how long one call of the log may take.
const attemptFor = 5 * time.Second

// readEntry reads one entry of the log.
func readEntry(ctx context.Context, log Log, number uint64) (entry []byte, err error) {
	err = attempt(ctx, func(ctx context.Context) error {
		found, err := log.Read(ctx, number, 1)
		if err == nil {
			entry = found[0]
		}
		return err
	})
	return entry, err
}

// attempt gives a call of the log a time of its own.
func attempt(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, attemptFor)
	defer cancel()
	return call(ctx)
}

// pause waits for d, and returns an error if ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// signal puts a token into a channel that has room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
