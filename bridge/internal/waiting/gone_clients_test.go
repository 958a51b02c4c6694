package waiting_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
)

// The bridge asks whether the clients of waiting pops still listen, and frees the places
// of those that have gone.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 100)
		l.gone = func(reply string) bool { return reply == "_INBOX.gone.b" }
		l.added("a", "jobs", "there")
		pass(10 * time.Second)
		l.added("b", "jobs", "gone")
		l.added("c", "jobs", "there")
		pass(5*time.Second - 1)
		if len(l.now().asked) != 0 {
			t.Errorf("asked after %v before anybody had waited for long", l.now().asked)
		}
		pass(1)
		if len(l.now().asked) != 1 || len(l.now().asked[0]) != 3 || l.why("b") != waiting.ErrGone {
			t.Errorf("asked after %v, b: %v", l.now().asked, l.why("b"))
		}
		pass(15*time.Second - 1)
		if len(l.now().asked) != 1 {
			t.Errorf("asked %d times", len(l.now().asked))
		}
		pass(1)
		if want := []string{"_INBOX.there.a", "_INBOX.there.c"}; len(l.now().asked) != 2 || !slices.Equal(l.now().asked[1], want) {
			t.Errorf("asked after %v, want %v last", l.now().asked, want)
		}
		l.Remove(l.pops["a"])
		l.Remove(l.pops["c"])
		pass(time.Hour)
		if len(l.now().asked) != 2 || len(l.now().order) != 1 {
			t.Errorf("asked after %v, ended %v", l.now().asked, l.now().order)
		}
	})
}

// The bridge asks more often while places are short.
func TestSweepWhenPlacesAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 4)
		l.gone = func(string) bool { return true }
		for i := range 2 {
			l.added(fmt.Sprint(i), "jobs", "x")
		}
		pass(3 * time.Second)
		if len(l.now().asked) != 0 {
			t.Errorf("asked after %v", l.now().asked)
		}
		l.added("2", "jobs", "x")
		pass(0)
		if len(l.now().asked) != 1 || l.Waiting() != 1 {
			t.Errorf("asked after %v, %d wait on", l.now().asked, l.Waiting())
		}
		l.Close(waiting.ErrOver)
	})
}

// Sweeps never overlap, however long the answer takes, also after all waits have ended.
func TestSweepsDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 4)
		answer := make(chan struct{})
		l.gone = func(string) bool {
			<-answer
			return false
		}
		for i := range 4 {
			l.added(fmt.Sprint(i), "jobs", "x")
		}
		pass(2 * time.Second)
		l.Remove(l.pops["0"])
		l.added("more", "jobs", "x")
		pass(time.Minute / 2)
		if n := len(l.now().asked); n != 1 {
			t.Errorf("%d sweeps, and the first is not over", n)
		}
		l.Close(waiting.ErrOver)
		l.Open()
		close(answer)
		l.added("again", "jobs", "x")
		pass(15 * time.Second)
		if asked := l.now().asked; len(asked) != 2 || len(asked[1]) != 1 {
			t.Errorf("asked after %v", asked)
		}
		l.Close(waiting.ErrOver)
		l.Open()
		l.added("and again", "jobs", "x")
		pass(15 * time.Second)
		if asked := l.now().asked; len(asked) != 3 {
			t.Errorf("asked after %v", asked)
		}
		l.Close(waiting.ErrOver)
	})
}

// A sweep asks about a bounded number of pops.
func TestSweepIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 3000)
		for i := range 3000 {
			l.added(fmt.Sprint(i), "jobs", "x")
		}
		asked := make(map[string]bool)
		for second := range 9 {
			pass(time.Second)
			if len(l.now().asked) != second+1 || len(l.now().asked[second]) != 1000 {
				t.Fatalf("in second %d: asked %d times", second, len(l.now().asked))
			}
			for _, reply := range l.now().asked[second] {
				asked[reply] = true
			}
			if want := min(3, second+1) * 1000; len(asked) != want {
				t.Errorf("in second %d: asked after %d, want %d", second, len(asked), want)
			}
		}
		l.Close(waiting.ErrOver)
		pass(time.Hour)
		if len(l.now().asked) != 9 {
			t.Errorf("asked %d times", len(l.now().asked))
		}
	})
}

// The places of a connection that has gone with many waits are free at once, however many these are.
func TestSweepsOfManyThatHaveGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 10_000)
		l.gone = func(reply string) bool { return strings.HasPrefix(reply, "_INBOX.gone.") }
		for i := range 9999 {
			l.added(fmt.Sprint(i), "jobs", "gone")
		}
		l.added("stays", "jobs", "there")
		pass(time.Second)
		if n := l.Waiting(); n != 1 {
			t.Errorf("%d wait, expected one", n)
		}
		asked := len(l.now().asked)
		pass(time.Second - 1)
		if n := len(l.now().asked); n != asked {
			t.Errorf("asked %d times more, and the one has not gone", n-asked)
		}
		l.Close(waiting.ErrOver)
	})
}

// If a pop whose client has gone is being served, the caller that serves it ends it. A
// sweep ends no pop that was served or added meanwhile.
func TestSweepBesideAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 100)
		l.added("a", "jobs", "x")
		l.added("b", "jobs", "x")
		l.added("c", "jobs", "x")
		l.gone = func(reply string) bool {
			if reply == "_INBOX.x.c" {
				l.Remove(l.pops["c"])
			}
			return true
		}
		l.Attempt("jobs")
		for _, name := range []string{"b", "c"} {
			if err := l.Keep(l.pops[name]); err != nil {
				t.Error(err)
			}
		}
		pass(15 * time.Second)
		if l.why("b") != waiting.ErrGone || len(l.now().order) != 1 {
			t.Errorf("ended: %v", l.now().ended)
		}
		if err := l.Keep(l.pops["a"]); err != waiting.ErrGone {
			t.Errorf("a: %v", err)
		}
	})
}

// Waits end sooner when their clients are not seen any more, but none later than it would.
func TestUnseenWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 100)
		l.added("seen", "jobs", "x")
		l.added("hidden", "jobs", "y")
		l.added("short", "jobs", "y", func(w *waiting.Wait) { w.Ends = time.Now().Add(5 * time.Second) })
		l.added("never", "jobs", "z", func(w *waiting.Wait) { w.Unseen = true })
		l.added("attempted", "other", "y")
		l.Attempt("other")
		counted := func(n int) {
			t.Helper()
			if l.Unseen() != n {
				t.Errorf("%d are not seen, expected %d", l.Unseen(), n)
			}
		}
		counted(1)
		for range 2 {
			l.Unsee(func(w *waiting.Wait) bool { return strings.HasPrefix(w.Reply, "_INBOX.y.") }, time.Now().Add(10*time.Second))
			counted(4)
		}
		pass(5 * time.Second)
		if l.why("short") != waiting.ErrOver || l.why("hidden") != nil {
			t.Errorf("after 5 s: %v", l.now().ended)
		}
		counted(3)
		pass(5 * time.Second)
		if l.why("hidden") != waiting.ErrOver || l.why("seen") != nil || l.why("never") != nil {
			t.Errorf("after 10 s: %v", l.now().ended)
		}
		if err := l.Keep(l.pops["attempted"]); err != waiting.ErrOver {
			t.Errorf("the attempted one: %v", err)
		}
		counted(1)
		l.Remove(l.pops["never"])
		counted(0)
		pass(50 * time.Second)
		if l.why("seen") != waiting.ErrOver {
			t.Errorf("after a minute: %v", l.now().ended)
		}
	})
}
