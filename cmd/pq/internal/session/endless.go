package session

import (
	"context"
	"errors"
	"time"
)

// Interrupted returns nil for Ctrl-C, which is how a user ends an endless command.
func Interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return nil
	}
	return err
}

// Pause is how long a command that looks again and again waits after a look that took so long: at least as
// long, so that it asks for at most half of the time, however slow the answers are.
func Pause(took, interval time.Duration) time.Duration { return max(interval-took, took) }
