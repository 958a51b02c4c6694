package waiting_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// A queue may have all places while no other queue needs them, and shares them otherwise.
func TestQueuesShareThePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 6)
		for i := range 6 {
			l.added(fmt.Sprint("a", i), "a", "x")
		}
		l.refused("a6", "a", "x")
		l.added("b0", "b", "x")
		l.added("b1", "b", "x")
		l.added("c0", "c", "x")
		l.refused("b2", "b", "x") // a and b have three and two
		l.refused("a7", "a", "x")
		l.added("c1", "c", "x")
		l.refused("c2", "c", "x") // all have two
		l.evicted("a5", "a4", "a3", "a2")
		l.added("d0", "d", "x") // of any of them
		l.refused("d1", "d", "x")
		if n := l.Waiting(); n != 6 {
			t.Errorf("%d wait, want 6", n)
		}
		l.Close(waiting.ErrOver)
	})
}

// Within a queue its clients share.
func TestClientsOfAQueueShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 6)
		for i := range 6 {
			l.added(fmt.Sprint("x", i), "a", "x")
		}
		l.added("y0", "a", "y")
		l.added("y1", "a", "y")
		l.added("z0", "a", "z")
		l.refused("y2", "a", "y")
		l.evicted("x5", "x4", "x3")
		// Clients with an inbox for each request count as one client.
		for i, reply := range []string{"_INBOX.1", "_INBOX.2", "_INBOX.3"} {
			direct := func(w *waiting.Wait) { w.Reply = reply }
			if name := fmt.Sprint("old", i); i == 0 {
				l.added(name, "a", "", direct)
			} else {
				l.refused(name, "a", "", direct)
			}
		}
		// Another queue gets a place of the client with the most.
		l.added("b0", "b", "x")
		l.Close(waiting.ErrOver)
	})
}

// The queue with the most waiting pops gives a place, and in it the client with the most,
// whatever happened before.
func TestLongestQueueGivesAPlace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) { testTheLongestQueueGives(t, rand.New(rand.NewPCG(seed, 13))) })
	}
}

func testTheLongestQueueGives(t *testing.T, r *rand.Rand) {
	const places = 40
	l := newLine(t, places)
	type spot struct{ queue, client string }
	waits := make(map[string]spot)
	var newest []string // of those that wait, in the order in which they came
	count := func(of func(spot) bool) (n int) {
		for _, s := range waits {
			if of(s) {
				n++
			}
		}
		return n
	}
	leave := func(name string) {
		delete(waits, name)
		newest = slices.DeleteFunc(newest, func(other string) bool { return other == name })
	}
	for step := range 600 {
		if len(newest) > 0 && r.IntN(4) == 0 {
			name := newest[r.IntN(len(newest))]
			l.Remove(l.pops[name])
			leave(name)
			continue
		}
		name := fmt.Sprint(step)
		// Some queues and clients ask for more than others.
		s := spot{fmt.Sprint("q", r.IntN(1+r.IntN(8))), fmt.Sprint("c", r.IntN(1+r.IntN(4)))}
		full, before := len(waits) == places, len(l.now().order)
		err := l.add(name, s.queue, s.client)
		ended := l.now().order[before:]
		in := func(q string) int { return count(func(o spot) bool { return o.queue == q }) }
		of := func(o spot) int { return count(func(p spot) bool { return p == o }) }
		most := 0
		for _, o := range waits {
			most = max(most, in(o.queue))
		}
		mostHere := 0
		for _, o := range waits {
			if o.queue == s.queue {
				mostHere = max(mostHere, of(o))
			}
		}
		fair := in(s.queue)+1 < most
		if gets := !full || fair || of(s)+1 < mostHere; gets != (err == nil) {
			t.Fatalf("step %d: %v, full %t, %d of at most %d, %d of at most %d: %v", step, s, full, in(s.queue), most, of(s), mostHere, err)
		}
		if full == (err == nil) && (len(ended) == 0) == full {
			t.Fatalf("step %d: full %t, error %v, ended %v", step, full, err, ended)
		}
		for _, gave := range ended {
			giver := waits[gave]
			if fair && in(giver.queue) != most || !fair && giver.queue != s.queue {
				t.Errorf("step %d: a pop of %v had to make room for %v", step, giver, s)
			}
			for i := len(newest) - 1; i >= 0; i-- {
				o := waits[newest[i]]
				if o.queue == giver.queue && of(o) > of(giver) {
					t.Errorf("step %d: %v had to make room, and %v has more", step, giver, o)
				}
				if o == giver && newest[i] != gave {
					t.Errorf("step %d: %s had to make room, and %s came later", step, gave, newest[i])
				}
				if o == giver {
					break
				}
			}
			leave(gave)
		}
		if err == nil {
			waits[name] = s
			newest = append(newest, name)
		}
	}
	l.Close(waiting.ErrOver)
}

// A pop that has to make room while it is being served is served, or ended by the caller
// that tried to serve it.
func TestPopMakesRoomWhileServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 4)
		for i := range 4 {
			l.added(fmt.Sprint("a", i), "a", "x")
		}
		l.Attempt("a")
		l.added("b0", "b", "x")
		l.added("b1", "b", "x")
		l.evicted()
		if n := l.Waiting(); n != 4 {
			t.Errorf("%d wait, want 4", n)
		}
		l.Remove(l.pops["a3"]) // it was served
		if err := l.Keep(l.pops["a2"]); err == nil {
			t.Error("it waits on without a place")
		}
		for _, name := range []string{"a0", "a1"} {
			if err := l.Keep(l.pops[name]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		l.Close(waiting.ErrOver)
	})
}

// Pops of a queue wait for a bounded number of bands. A pop of all priorities may always
// wait.
func TestBandsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 100)
		for i := range maxBands {
			l.added(fmt.Sprint(i), "a", "x", band(int64(i), int64(i)))
		}
		l.refused("one more", "a", "y", band(0, 1))
		l.added("known", "a", "y", band(5, 5))
		l.added("all", "a", "y")
		l.refused("another", "a", "y", band(0, 1))
		l.added("elsewhere", "b", "y", band(0, 1))
		l.Remove(l.pops["7"])
		l.added("instead", "a", "y", band(0, 1))
		l.Remove(l.pops["5"])
		l.refused("too many", "a", "y", band(0, 2)) // another pop waits for that one
		if a := l.Attempt("a"); len(a.Pops) != maxBands+1 || len(a.Beyond) != 0 {
			t.Errorf("%d pops to serve, and more for %v", len(a.Pops), a.Beyond)
		}
		l.Close(waiting.ErrOver)
	})
}

// A band that covers all priorities does not count as a band, however it is written.
func TestAllPrioritiesIsNoBand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, 100)
		all := fdbpq.AllPriorities
		l.added("all", "a", "x", band(all.Low, all.High))
		for i := range maxBands {
			l.added(fmt.Sprint(i), "a", "x", band(int64(i), int64(i)))
		}
		l.refused("one more", "a", "x", band(-1, -1))
		l.Close(waiting.ErrOver)
	})
}
