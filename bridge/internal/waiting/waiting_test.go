package waiting_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

const maxBands = 20

// line is a set of waiting pops with names.
type line struct {
	testing.TB
	*waiting.Pops[string]
	pops map[string]*waiting.Pop[string]
	gone func(reply string) bool

	mu   sync.Mutex
	seen seen
}

// seen has the reports of a line.
type seen struct {
	ended  map[string]error
	order  []string   // in which they ended
	served []string   // queues
	asked  [][]string // reply subjects, by sweep
}

func (l *line) now() seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return seen{maps.Clone(l.seen.ended), slices.Clone(l.seen.order), slices.Clone(l.seen.served), slices.Clone(l.seen.asked)}
}

func newLine(t testing.TB, places int) *line {
	l := &line{TB: t, pops: make(map[string]*waiting.Pop[string]), seen: seen{ended: make(map[string]error)}}
	l.Pops = waiting.New(waiting.Options[string]{Places: places, Bands: maxBands, End: l.end, Serve: l.serve, Gone: l.ask})
	return l
}

func (l *line) end(name string, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen.ended[name] != nil {
		l.Errorf("%s ended twice: %v, then %v", name, l.seen.ended[name], why)
	}
	l.seen.ended[name] = why
	l.seen.order = append(l.seen.order, name)
}

func (l *line) serve(queue string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.served = append(l.seen.served, queue)
}

func (l *line) ask(of []waiting.Wait) (gone []string) {
	var replies []string
	for _, w := range of {
		replies = append(replies, w.Reply)
	}
	l.mu.Lock()
	l.seen.asked = append(l.seen.asked, replies)
	l.mu.Unlock()
	for _, reply := range replies {
		if l.gone != nil && l.gone(reply) {
			gone = append(gone, reply)
		}
	}
	return gone
}

// add makes a pop of a client wait.
func (l *line) add(name, queue, client string, options ...func(*waiting.Wait)) error {
	w := waiting.Wait{Queue: queue, Band: fdbpq.AllPriorities, Reply: "_INBOX." + client + "." + name, Ends: time.Now().Add(time.Minute)}
	for _, option := range options {
		option(&w)
	}
	l.pops[name] = waiting.NewPop(w, name)
	return l.Add(l.pops[name])
}

func (l *line) added(name, queue, client string, options ...func(*waiting.Wait)) {
	l.Helper()
	if err := l.add(name, queue, client, options...); err != nil {
		l.Fatalf("%s: %v", name, err)
	}
}

func (l *line) refused(name, queue, client string, options ...func(*waiting.Wait)) {
	l.Helper()
	var full *waiting.FullError
	if err := l.add(name, queue, client, options...); !errors.As(err, &full) {
		l.Fatalf("%s: error %v, want that it is too much", name, err)
	}
}

func (l *line) why(name string) error { return l.now().ended[name] }

// evicted checks which of these pops had to make room.
func (l *line) evicted(names ...string) {
	l.Helper()
	now := l.now()
	if !slices.Equal(now.order, names) {
		l.Errorf("%v ended, want %v", now.order, names)
	}
	for name, why := range now.ended {
		var full *waiting.FullError
		if !errors.As(why, &full) {
			l.Errorf("%s ended with %v", name, why)
		}
	}
}

func band(low, high int64) func(*waiting.Wait) {
	return func(w *waiting.Wait) { w.Band = fdbpq.Band{Low: low, High: high} }
}

func wait(d time.Duration) func(*waiting.Wait) {
	return func(w *waiting.Wait) { w.Ends = time.Now().Add(d) }
}

// fails checks an attempt to serve a queue in which no pop can be served.
func (l *line) fails(queue string, want []string, beyond ...fdbpq.Band) {
	l.Helper()
	a := l.Attempt(queue)
	if !slices.Equal(a.Pops, want) || !slices.Equal(a.Beyond, beyond) {
		l.Errorf("to serve: %v and more for %v, want %v and %v", a.Pops, a.Beyond, want, beyond)
	}
	for _, name := range a.Pops {
		if err := l.Keep(l.pops[name]); err != nil {
			l.Errorf("%s: %v", name, err)
		}
	}
}

// pass advances the clock, and returns when the effects are there.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func names(prefix string, from, to int) (all []string) {
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// Pops are tried in the order in which they came, a bounded number for each band.
func TestAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 1000)
		low := fdbpq.Band{Low: 1, High: 1}
		for i := range 130 {
			l.added(fmt.Sprint("low", i), "jobs", "a", band(1, 1))
			if i < 3 {
				l.added(fmt.Sprint("any", i), "jobs", "b")
			}
		}
		l.added("other", "mail", "a")
		first := []string{"low0", "any0", "low1", "any1", "low2", "any2"}
		l.fails("jobs", append(first, names("low", 3, 128)...), low)
		l.fails("mail", []string{"other"})
		l.fails("nobody", nil)
		for _, name := range first[:4] {
			l.Remove(l.pops[name])
		}
		l.fails("jobs", append([]string{"low2", "any2"}, names("low", 3, 130)...))
		if n, all := l.WaitingAt("jobs"), l.Waiting(); n != 129 || all != 130 {
			t.Errorf("%d wait at jobs and %d in all, want 129 and 130", n, all)
		}
		l.Close(errors.New("the end"))
	})
}

// A pop has one attempt at a time, which may begin before its wait. None begins when the wait is over.
func TestBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 2)
		pop := waiting.NewBegun(waiting.Wait{Queue: "jobs", Band: fdbpq.AllPriorities, Ends: time.Now().Add(time.Minute)}, "begun")
		if err := l.Add(pop); err != nil || l.Begin(pop) {
			t.Errorf("a second attempt has begun: %v", err)
		}
		if err := l.Keep(pop); err != nil || !l.Begin(pop) || l.Begin(pop) {
			t.Errorf("after an attempt not one can begin: %v", err)
		}
		pass(time.Hour)
		if l.why("begun") != nil || l.Keep(pop) != waiting.ErrOver || l.Begin(pop) {
			t.Errorf("the wait has ended within an attempt for %v, and another one has begun", l.why("begun"))
		}
	})
}

// Each wait ends at its time. If the pop is being served then, the caller that serves it
// learns of the end.
func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 1000)
		for i := range 100 {
			l.added(fmt.Sprint(i), "jobs", "a", wait(time.Duration(100-i)*time.Second))
		}
		a := l.Attempt("jobs")
		for _, name := range a.Pops[:98] {
			if err := l.Keep(l.pops[name]); err != nil {
				t.Fatal(err)
			}
		}
		pass(5*time.Second - 1)
		if want := []string{"97", "96"}; !slices.Equal(l.now().order, want) || l.why("97") != waiting.ErrOver {
			t.Errorf("%v ended, want %v", l.now().order, want)
		}
		for _, name := range []string{"98", "99"} {
			if err := l.Keep(l.pops[name]); err != waiting.ErrOver {
				t.Errorf("%s: %v", name, err)
			}
		}
		pass(95*time.Second + 1)
		if want := reversed(names("", 0, 98)); !slices.Equal(l.now().order, want) {
			t.Errorf("%v ended, want %v", l.now().order, want)
		}
		if n := l.Waiting(); n != 0 {
			t.Errorf("%d wait", n)
		}
		if err := l.add("late", "jobs", "a", wait(0)); err != waiting.ErrOver {
			t.Errorf("a wait without time: %v", err)
		}
	})
}

func reversed(names []string) []string {
	slices.Reverse(names)
	return names
}

// A watch that ends has its queue served. A watch that ends at once again and again does
// not occupy the bridge.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 10)
		cancelled := false
		if l.Watch("jobs", kv.NewWatch(nil, func() { cancelled = true })); !cancelled {
			t.Error("an unneeded watch was not cancelled")
		}
		l.added("a", "jobs", "x", wait(time.Hour))
		watch := func() (end func()) {
			done := make(chan struct{})
			end = sync.OnceFunc(func() { close(done) })
			l.Watch("jobs", kv.NewWatch(done, end))
			if a := l.Attempt("jobs"); !a.Watched {
				t.Error("there is a watch and it does not show")
			}
			return end
		}
		for range 5 {
			watch()()
			synctest.Wait()
			if a := l.Attempt("jobs"); a.Watched {
				t.Error("the watch has ended and shows")
			}
		}
		if len(l.now().served) != 3 {
			t.Errorf("served %d times at once, want 3", len(l.now().served))
		}
		pass(time.Second)
		if served := l.now().served; len(served) != 5 || served[0] != "jobs" {
			t.Errorf("served %v, want jobs 5 times", served)
		}
		l.added("b", "jobs", "x", wait(time.Hour))
		l.Remove(l.pops["b"])
		watch()()
		synctest.Wait()
		if n := len(l.now().served); n != 6 {
			t.Errorf("served %d times, want 6: a pop was served since", n)
		}
		watch()
		l.Remove(l.pops["a"]) // the last one, which ends the watch
		synctest.Wait()
	})
}

// Close ends all waits, also the waits of pops that are being served.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 10)
		for _, name := range []string{"a", "b"} {
			l.added(name, "jobs", "x")
		}
		l.Attempt("jobs")
		l.added("c", "jobs", "x")
		end := errors.New("the end")
		l.Close(end)
		if l.why("c") != end || len(l.now().order) != 1 {
			t.Errorf("%v ended", l.now().order)
		}
		if err := l.add("d", "jobs", "x"); err != end {
			t.Errorf("a wait after the end: %v", err)
		}
		l.Open()
		l.Remove(l.pops["b"]) // it was served
		if err := l.Keep(l.pops["a"]); err != end {
			t.Errorf("a: %v", err)
		}
		l.added("e", "jobs", "x")
		l.fails("jobs", []string{"e"})
		pass(time.Hour)
		if l.why("e") != waiting.ErrOver || len(l.now().order) != 2 {
			t.Errorf("%v ended", l.now().order)
		}
	})
}

// Whatever happens, each wait ends once and no more pops wait than have places.
func TestEachWaitEndsOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) { testEachWaitEndsOnce(t, rand.New(rand.NewPCG(seed, 13))) })
	}
}

func testEachWaitEndsOnce(t *testing.T, r *rand.Rand) {
	const places = 30
	l := newLine(t, places)
	l.gone = func(reply string) bool { return strings.HasSuffix(reply, "7") }
	over := make(map[string]bool)
	trying := make(map[string]bool)
	added := 0
	for range 1000 {
		switch queue := fmt.Sprint("q", r.IntN(4)); r.IntN(6) {
		case 0, 1, 2:
			name := fmt.Sprint(added)
			added++
			w := []func(*waiting.Wait){band(0, r.Int64N(3)), wait(time.Duration(r.IntN(90)) * time.Second)}
			over[name] = l.add(name, queue, fmt.Sprint("c", r.IntN(3)), w...) != nil
		case 3:
			for _, name := range l.Attempt(queue).Pops {
				trying[name] = true
			}
		case 4:
			for name := range trying {
				if r.IntN(2) == 0 {
					l.Remove(l.pops[name])
					over[name] = true
				} else if l.Keep(l.pops[name]) != nil {
					over[name] = true
				}
				delete(trying, name)
			}
		case 5:
			pass(time.Duration(r.IntN(5000)) * time.Millisecond)
		}
		if n := l.Waiting(); n > places {
			t.Fatalf("%d wait", n)
		}
	}
	for name := range trying {
		l.Remove(l.pops[name])
		over[name] = true
	}
	pass(time.Hour)
	if n := l.Waiting(); n != 0 {
		t.Errorf("%d wait", n)
	}
	ended := l.now().ended
	for name := range l.pops {
		if over[name] == (ended[name] != nil) {
			t.Errorf("%s ended for its caller: %v; and for others: %v", name, over[name], ended[name])
		}
	}
}

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
