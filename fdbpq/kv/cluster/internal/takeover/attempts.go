package takeover

import (
	"math/rand/v2"
	"time"
)

// failedAtMost is how long a member waits at most behind a candidacy that failed.
const failedAtMost = 12 * time.Second

// Attempts decide when a member may try to become active.
type Attempts struct {
	pause    time.Duration // behind the first failure
	patience time.Duration // how long it has to wait for a sign of life
	failures int
	next     time.Time // not before
}

// NewAttempts returns the attempts of a member that waits for a pause, or somewhat longer, for a sign of life, and
// behind the first failure.
func NewAttempts(pause time.Duration) *Attempts {
	return &Attempts{pause: pause, patience: jitter(pause)}
}

// Reset is called when another member was heard.
func (a *Attempts) Reset() { *a = *NewAttempts(a.pause) }

// Failed is called behind a candidacy without success. To replace a lost member the first ones follow soon.
func (a *Attempts) Failed(lost bool, now time.Time) {
	pause := a.pause << min(a.failures, 3)
	if lost {
		pause = RankPause << min(a.failures, 7)
	}
	a.next = now.Add(jitter(min(pause, failedAtMost)))
	a.failures++
}

// May reports whether the pause behind the last failure is over.
func (a *Attempts) May(now time.Time) bool { return now.After(a.next) }

// Waited reports whether a silence of the active member is so long that nobody has to confirm it.
func (a *Attempts) Waited(silence time.Duration) bool { return silence > a.patience }

// jitter returns between d and 1.5 d, so that members do not all try at the same time.
func jitter(d time.Duration) time.Duration { return d + rand.N(d/2) }
