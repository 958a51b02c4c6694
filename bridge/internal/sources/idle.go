package sources

import (
	"context"
	"time"
)

// clock is the time by which sources pause.
type clock struct {
	now   func() time.Time
	after func(time.Duration) <-chan time.Time
}

// idle is about a remote that is asked to wait until it has something. One that answers at once that it has nothing
// would be asked again at once, and keep both sides busy; so it is asked after a pause, which grows.
type idle struct{ next time.Duration }

const (
	// idleWait is how long a remote has to wait before it answers that it has nothing. It is shorter than any wait
	// that a source asks for.
	idleWait = time.Second

	lastIdle = 5 * time.Second
)

// pause is the pause behind an answer without anything that took so long. Once, an answer may come too early.
func (i *idle) pause(took time.Duration) time.Duration {
	if took >= idleWait {
		i.reset()
		return 0
	}
	pause := i.next
	i.next = min(max(2*pause, firstPause), lastIdle)
	return pause
}

// reset notes that the remote has given something.
func (i *idle) reset() { i.next = 0 }

// rest waits for a pause, unless there is none.
func (a *attempt) rest(ctx context.Context, pause time.Duration) error {
	if pause == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.lost:
		return errDisconnected
	case <-a.runners.clock.after(pause):
		return nil
	}
}
