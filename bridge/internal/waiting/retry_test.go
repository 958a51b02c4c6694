package waiting_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
)

// served checks how often each of some attempts to serve was made.
func (l *line) triedToServe(queues ...string) {
	l.Helper()
	if got := l.now().served; !slices.Equal(got, queues) {
		l.Errorf("served %v, want %v", got, queues)
	}
}

// A queue is looked at when the first of its times has come, and once for each.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 10)
		l.added("a", "jobs", "x")
		l.Retry("jobs", 3*time.Second)
		l.Retry("jobs", 2*time.Second)
		l.Retry("jobs", 5*time.Second)
		pass(2*time.Second - 1)
		l.triedToServe()
		pass(1)
		l.triedToServe("jobs")
		pass(10 * time.Second)
		l.triedToServe("jobs") // whose pop says when again
		l.Retry("jobs", time.Second)
		pass(time.Second)
		l.triedToServe("jobs", "jobs")
		l.Close(waiting.ErrOver)
	})
}

// A time is forgotten with the last pop of its queue, and is no other queue's.
func TestRetryOfNoPops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 10)
		l.Retry("jobs", time.Second) // nobody waits
		l.added("a", "jobs", "x")
		l.added("b", "mails", "x")
		pass(2 * time.Second)
		l.triedToServe()
		l.Retry("jobs", time.Second)
		l.Remove(l.pops["a"])
		pass(2 * time.Second)
		l.triedToServe()
		l.added("c", "jobs", "x")
		pass(2 * time.Second)
		l.triedToServe()
		l.Retry("jobs", time.Second)
		l.Close(waiting.ErrOver)
		pass(2 * time.Second)
		l.triedToServe()
	})
}

// However soon a time is, a queue is not looked at all the time.
func TestRetryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 10)
		l.added("a", "jobs", "x")
		l.Retry("jobs", 1)
		pass(time.Millisecond)
		l.triedToServe()
		pass(10 * time.Millisecond)
		l.triedToServe("jobs")
		l.Close(waiting.ErrOver)
	})
}
