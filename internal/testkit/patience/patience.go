// Package patience says how long tests wait for an event that must happen.
//
// The event usually takes milliseconds. The bound is for events that never happen, so it is long, and longer on a
// busy machine: a test that fails only there has found nothing. The load changes while tests run, so each wait asks
// anew.
package patience

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

const (
	// long is how long a test waits on a machine that runs the tests alone.
	long = time.Minute

	// Most is longer than any wait. It is for options that mean never, and for whole programs that
	// a test runs. Nothing multiplies Long, and a test that hangs is ended after five minutes.
	Most = most*long + 30*time.Second

	// Compile is how long a compiler may take. From an empty cache, with the race detector, the project
	// and its libraries need twelve minutes of processor time, beside others that compile as well.
	Compile = 15 * time.Minute
)

// Long is how long a test waits for an event that must happen, if the wait begins now.
func Long() time.Duration { return Times(long).Round(time.Second) }

// Attempt is how long one attempt of a repeated request takes. A server that is not ready yet leaves a request
// without an answer: an attempt of the length of Long would be the only one.
func Attempt() time.Duration { return Times(2 * time.Second) }

// Times is how long something may take now that takes d at most on a machine that runs the tests alone.
func Times(d time.Duration) time.Duration { return time.Duration(Factor() * float64(d)) }

// Factor is how much longer things take now than on a machine that runs the tests alone: 1 to 4.
func Factor() float64 { return machine.factor(look, runtime.NumCPU()) }

var machine gauge

// gauge remembers its looks at the machine, because a look costs a millisecond, and because the progress of
// programs is known only between two looks.
type gauge struct {
	mu     sync.Mutex
	before sample // with which the next one is compared
	last   float64
}

func (g *gauge) factor(look func() (sample, bool), processors int) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last > 0 && clock()-g.before.at < window {
		return g.last
	}
	now, ok := look()
	if !ok {
		return 1
	}
	g.last = factor(g.before, now, processors)
	g.before = now
	return g.last
}

// Wait is a wait for an event that must happen. It is over when it has lasted as long as Long on a machine that
// runs the tests alone: while things take longer, its time passes more slowly.
type Wait struct {
	began, asked time.Time
	spent        time.Duration // of long, until it was asked last
}

// Begin begins a wait.
func Begin() *Wait {
	now := time.Now()
	return &Wait{began: now, asked: now}
}

// askEvery is how often a wait asks how slow the machine is, since some waits poll without a pause.
const askEvery = 100 * time.Millisecond

// Over reports whether the wait has lasted so long that the event will not happen.
func (w *Wait) Over() bool {
	now := time.Now()
	if passed := now.Sub(w.asked); passed >= askEvery {
		w.spent += time.Duration(float64(passed) / Factor())
		w.asked = now
	}
	return w.spent >= long
}

// String says how long the wait has lasted.
func (w *Wait) String() string { return time.Since(w.began).Round(time.Second).String() }

// Late returns a channel that gets a value when a wait that begins now is over. No wait is over before long has
// passed, so it asks nothing until then: a test may make a thousand waits.
func Late() <-chan time.Time {
	w, late := Begin(), make(chan time.Time, 1)
	var ask func()
	ask = func() {
		if w.Over() {
			late <- time.Now()
			return
		}
		time.AfterFunc(window, ask)
	}
	time.AfterFunc(long, ask)
	return late
}

// test is the part of testing.TB that Fail needs.
type test interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

var shown sync.Once

// Fail ends a test that has waited in vain. The first one of a program shows the stacks of all goroutines: one of
// them may be the cause.
func Fail(t test, format string, args ...any) {
	t.Helper()
	shown.Do(func() { t.Logf("all goroutines:\n%s", goroutines()) })
	t.Fatalf(format, args...)
}

// goroutines are the stacks of all goroutines, or of as many as a log has room for.
func goroutines() string {
	stacks := make([]byte, 1<<20)
	n := runtime.Stack(stacks, true)
	if n == len(stacks) {
		return fmt.Sprintf("%s\nand more", stacks)
	}
	return string(stacks[:n])
}
