package turns_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
)

// A line without work is served at once. Requests that come meanwhile are the next turn, in the order of their lines, and each
// line says what it reads before any of them reads it.
func TestTurns(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.put("a", 1)
		s.put("b", 2)
		s.put("a", 3)
		s.put("held", 4)
		s.quiet()
		held.end(nil)
		tx := s.next(on("a", 1, 3), on("b", 2), on("held", 4))
		if got := strings.Join(tx.ahead, " "); got != "a b held" {
			t.Errorf("what is read was said by %q", got)
		}
		s.put("c", 5)
		tx.end(nil)
		s.commits(on("c", 5))
		for key, of := range map[string][]int{"a": {1, 3}, "b": {2}, "held": {0, 4}, "c": {5}} {
			for _, n := range of {
				s.ended(key, n, nil)
			}
		}
		if !slices.Equal(s.ran, []int{1, 4, 1}) {
			t.Errorf("transactions of %v requests, expected 1, 4 and 1", s.ran)
		}
	})
}

// Several turns may be under way. A line is in one of them.
func TestTurnsAtOnce(t *testing.T) {
	inBubble(t, options{Turns: 2}, func(s *store) {
		held := s.hold()
		s.put("a", 1)
		other := s.next(on("a", 1))
		s.put("a", 2)
		s.put("b", 3)
		s.quiet()
		other.end(nil)
		other = s.next(on("b", 3), on("a", 2))
		held.end(nil)
		other.end(nil)
	})
}

// A turn is bounded. Each line gives as much as there is for every line before one gives the rest; what is left is in the next turn.
func TestTurnIsBounded(t *testing.T) {
	inBubble(t, options{Limits: batch.Limits{Requests: 8, Bytes: 100}}, func(s *store) {
		held := s.hold()
		s.put("a", 1, 2, 3, 4, 5, 6, 7)
		s.put("b", 11)
		s.put("c", 21, 22, 23)
		held.end(nil)
		tx := s.next(on("a", 1, 2, 3, 4, 5), on("b", 11), on("c", 21, 22))
		s.put("d", 31)
		tx.end(nil)
		s.commits(on("d", 31), on("a", 6, 7), on("c", 23)) // behind what came meanwhile

		held = s.hold()
		for n, size := range []int{20, 25, 25, 25, 10, 20} { // by bytes
			s.send(string(rune('a'+n)), request{n: n + 1, size: size})
		}
		held.end(nil)
		s.commits(on("a", 1), on("b", 2), on("c", 3), on("d", 4))
		s.commits(on("e", 5), on("f", 6))

		held = s.hold()
		for n := range 20 { // more lines than requests fit
			s.put(fmt.Sprint("q", n), n+1)
		}
		held.end(nil)
		for first := 0; first < 20; first += 8 {
			var want []done
			for n := first; n < min(first+8, 20); n++ {
				want = append(want, on(fmt.Sprint("q", n), n+1))
			}
			s.commits(want...)
		}
	})
}

// A single line gives as many requests as a turn may have, whatever they weigh, and at least one.
func TestSingleLine(t *testing.T) {
	inBubble(t, options{Limits: batch.Limits{Requests: 8, Bytes: 100}}, func(s *store) {
		held := s.hold()
		for n := range 9 {
			s.send("a", request{n: n + 1, weight: 2})
		}
		held.end(nil)
		s.commits(on("a", 1, 2, 3, 4, 5, 6, 7, 8))
		s.commits(on("a", 9))
		held = s.hold()
		for n, size := range []int{25, 60, 300, 1} {
			s.send("a", request{n: n + 1, size: size})
		}
		held.end(nil)
		s.commits(on("a", 1, 2))
		s.commits(on("a", 3))
		s.commits(on("a", 4))
	})
}

// A line whose first request is large runs alone, beside the turn under way, and has no other line wait.
func TestLargeRequest(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.put("a", 1)
		s.send("large", request{n: 2, weight: 26})
		s.send("long", request{n: 3, size: 1 << 19})
		s.each(on("large", 2), on("long", 3))
		s.put("long", 4) // it is not large any more
		held.end(nil)
		s.commits(on("a", 1), on("long", 4))
	})
}

// So many lines run alone at a time.
func TestLargeRequestsAreBounded(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		var open []*transaction
		for n := range 16 {
			s.send(fmt.Sprint("large-", n), request{n: n, weight: 100})
			open = append(open, s.next(on(fmt.Sprint("large-", n), n)))
		}
		s.send("large-16", request{n: 16, weight: 100})
		s.quiet()
		s.put("a", 17)
		s.commits(on("a", 17))
		open[0].end(nil)
		s.commits(on("large-16", 16))
		for _, tx := range open[1:] {
			tx.end(nil)
		}
	})
}

// The lines of one owner have a bound in a turn, the first aside. Other owners' lines pass those beyond it, which keep their order.
func TestShareOfOneOwner(t *testing.T) {
	o := options{Limits: batch.Limits{Requests: 40, Bytes: 4000}, Owner: func(key string) string { return key[:1] }, Share: 10}
	inBubble(t, o, func(s *store) {
		held := s.hold()
		for n, r := range []struct {
			key    string
			weight int
		}{{"a1", 6}, {"a2", 4}, {"a3", 5}, {"a4", 1}, {"b1", 10}, {"a5", 5}, {"b2", 1}, {"c1", 9}, {"d1", 9}} {
			s.send(r.key, request{n: n + 1, weight: r.weight})
		}
		held.end(nil)
		s.commits(on("a1", 1), on("a2", 2), on("b1", 5), on("c1", 8), on("d1", 9))
		s.commits(on("a3", 3), on("a4", 4), on("b2", 7))
		s.commits(on("a5", 6))
	})
}

// Owners have equal parts of a turn, however many requests one of them sends. Alone, an owner has all of it.
func TestOwnersShareTheRoom(t *testing.T) {
	o := options{Limits: batch.Limits{Requests: 12, Bytes: 4000}, Owner: func(key string) string { return key[:1] }, Share: 2}
	inBubble(t, o, func(s *store) {
		held := s.hold()
		for n := range 20 {
			s.put("a", n+1)
		}
		s.put("b", 31)
		s.put("c", 41, 42)
		held.end(nil)
		s.commits(on("a", 1, 2, 3, 4), on("b", 31), on("c", 41, 42))
		s.commits(on("a", 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16))
		s.commits(on("a", 17, 18, 19, 20))

		held = s.hold()
		for n := range 9 { // what the lines of one owner leave, the other one may have, up to its part
			s.put("a", n+51)
		}
		s.put("b1", 61)
		s.put("b2", 62)
		held.end(nil)
		s.commits(on("a", 51, 52, 53, 54, 55, 56), on("b1", 61), on("b2", 62))
		s.commits(on("a", 57, 58, 59))
	})
}

// While the store is away, all requests of a turn end with that.
func TestOutage(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.put("a", 1, 2)
		s.put("b", 3)
		held.end(nil)
		s.next(on("a", 1, 2), on("b", 3)).end(errAway)
		for key, of := range map[string][]int{"a": {1, 2}, "b": {3}} {
			for _, n := range of {
				s.ended(key, n, errAway)
			}
		}
		s.put("a", 4)
		s.next(on("a", 4)).end(errAway)
		s.ended("a", 4, errAway)
	})
}

// fails is a request that fails a number of times.
func fails(n, times int, err error) request {
	return request{n: n, fails: func() error {
		if times--; times >= 0 {
			return err
		}
		return nil
	}}
}

// A line that makes a turn fail takes no other with it: the others run once more as one turn, it alone, and for a second.
func TestFailureOfOneLine(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.put("a", 1)
		s.send("b", request{n: 2})
		s.send("b", fails(3, 9, errBroken))
		s.send("b", request{n: 4})
		s.put("c", 5)
		held.end(nil)
		tx := s.next(on("a", 1), on("c", 5))
		s.put("b", 6)
		tx.end(nil)
		s.commits(on("b", 2))    // alone it fails again; the requests before the bad one
		s.commits(on("b", 4, 6)) // it alone has failed; the rest
		s.ended("b", 3, errBroken)
		for key, of := range map[string][]int{"a": {1}, "b": {2, 4, 6}, "c": {5}} {
			for _, n := range of {
				s.ended(key, n, nil)
			}
		}

		held = s.hold()
		s.put("b", 7)
		s.commits(on("b", 7))
		<-time.After(1100 * time.Millisecond)
		s.put("b", 8)
		s.put("c", 9)
		held.end(nil)
		s.commits(on("b", 8), on("c", 9))
	})
}

// A line whose requests fail one after another keeps no other line waiting, from then on for a second.
func TestFailureOfLineAlone(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		s.send("b", fails(1, 9, errBroken))
		s.ended("b", 1, errBroken)
		held := s.hold()
		s.put("b", 2)
		s.commits(on("b", 2))
		<-time.After(time.Second)
		s.put("b", 3)
		s.send("b", fails(4, 9, errBroken))
		s.put("b", 5)
		s.put("a", 6)
		held.end(nil)
		s.commits(on("a", 6))
		tx := s.next(on("b", 3))
		s.put("a", 7)
		s.commits(on("a", 7))
		tx.end(nil)
		s.commits(on("b", 5))
		s.ended("b", 4, errBroken)

		<-time.After(time.Second)
		s.put("b", 8) // alone in an ordinary turn
		held = s.next(on("b", 8))
		s.send("b", fails(9, 9, errBroken))
		s.put("b", 10)
		held.end(nil)
		tx = s.next(on("b", 10))
		s.put("a", 11)
		s.commits(on("a", 11))
		tx.end(nil)
		s.ended("b", 9, errBroken)
	})
}

// When the others of a turn fail once more, each line runs alone. A line that was no reason does not do so for long.
func TestFailureOfTwoLines(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.put("a", 1)
		s.send("b", fails(2, 1, errBroken))
		s.send("c", fails(3, 1, errBroken))
		s.put("d", 4)
		held.end(nil)
		s.each(on("a", 1), on("b", 2), on("c", 3), on("d", 4))
		held = s.hold()
		s.put("a", 5)
		s.put("b", 7)
		s.put("c", 8)
		s.put("d", 6)
		s.each(on("b", 7), on("c", 8))
		s.quiet()
		held.end(nil)
		s.commits(on("a", 5), on("d", 6))
	})
}

// Lines that are together too much for a transaction run alone, now and for a second.
func TestTooMuchTogether(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.put("a", 1)
		s.put("b", 2)
		held.end(nil)
		s.next(on("a", 1), on("b", 2)).end(errors.New("too large"))
		s.each(on("a", 1), on("b", 2))
		held = s.hold()
		s.put("a", 3)
		s.put("b", 4)
		s.each(on("a", 3), on("b", 4))
		held.end(nil)
	})
}

// After a conflict each line of a turn runs alone. A line that has another one does so for a second.
func TestConflict(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.put("a", 1)
		s.put("b", 2)
		held.end(nil)
		s.next(on("a", 1), on("b", 2)).end(errConflict)
		for _, tx := range []*transaction{<-s.begun, <-s.begun} {
			if tx.done[0].key == "a" {
				tx.end(nil)
			} else {
				tx.end(errConflict)
			}
		}
		s.commits(on("b", 2))
		held = s.hold()
		s.put("a", 3)
		s.put("b", 4)
		s.commits(on("b", 4))
		held.end(nil)
		s.commits(on("a", 3))
	})
}

// Where a transaction that runs again cannot lose, the turn stays together after a conflict.
func TestRerun(t *testing.T) {
	inBubble(t, options{Rerun: true}, func(s *store) {
		held := s.hold()
		s.put("a", 1)
		s.put("b", 2)
		held.end(nil)
		s.next(on("a", 1), on("b", 2)).end(errConflict)
		s.commits(on("a", 1), on("b", 2))
		s.ended("a", 1, nil)
		s.ended("b", 2, nil)
	})
}

// A line that is refused before the transaction is answered, if that is about all its requests. Otherwise it runs alone. The
// others have their turn.
func TestRefusedLine(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.put("a", 1)
		s.send("full", request{n: 2, refused: errFull})
		s.send("broken", request{n: 3})
		s.send("broken", request{n: 4, refused: errBroken})
		held.end(nil)
		tx := s.next(on("a", 1))
		s.ended("full", 2, errFull)
		tx.end(nil)
		s.commits(on("broken", 3))
		s.ended("broken", 4, errBroken)
	})
}

// A line that takes long runs alone from then on, for a second after it last did. So nobody waits for it.
func TestSlowLine(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		slow := func(n int) request {
			return request{n: n, fails: func() error { <-time.After(21 * time.Millisecond); return nil }}
		}
		held := s.hold()
		s.put("a", 1)
		s.send("slow", slow(2))
		held.end(nil)
		s.commits(on("a", 1), on("slow", 2))
		held = s.hold()
		s.put("a", 3)
		<-time.After(900 * time.Millisecond)
		s.send("slow", slow(4))
		s.commits(on("slow", 4))
		<-time.After(900 * time.Millisecond)
		s.put("slow", 5)
		s.commits(on("slow", 5))
		held.end(nil)
		s.commits(on("a", 3))
		<-time.After(200 * time.Millisecond)
		held = s.hold()
		s.put("slow", 6)
		s.quiet()
		held.end(nil)
		s.commits(on("slow", 6))
	})
}

// A line that has the others of its turn wait for long does so again no sooner than after ten times as long, and a minute at most.
func TestVerySlowLine(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		for _, test := range []struct{ takes, apart time.Duration }{{2 * time.Second, 20 * time.Second}, {7 * time.Second, time.Minute}} {
			held := s.hold()
			s.put("a", 1)
			s.send("slow", request{n: 2, fails: func() error { <-time.After(test.takes); return nil }})
			held.end(nil)
			s.commits(on("a", 1), on("slow", 2))
			<-time.After(test.apart - time.Second)
			held = s.hold()
			s.put("slow", 3)
			s.commits(on("slow", 3))
			held.end(nil)
			<-time.After(1100 * time.Millisecond)
			held = s.hold()
			s.put("slow", 4)
			s.quiet()
			held.end(nil)
			s.commits(on("slow", 4))
		}
	})
}

// The first line of a turn waits for a store behind a network, which is not its fault. On other stores it is.
func TestSlowFirstLine(t *testing.T) {
	for _, rerun := range []bool{false, true} {
		t.Run(fmt.Sprint(rerun), func(t *testing.T) {
			inBubble(t, options{Rerun: rerun}, func(s *store) {
				held := s.hold()
				s.send("slow", request{n: 1, fails: func() error { <-time.After(21 * time.Millisecond); return nil }})
				s.put("a", 2)
				held.end(nil)
				s.commits(on("slow", 1), on("a", 2))
				held = s.hold()
				s.put("slow", 3)
				if rerun {
					s.commits(on("slow", 3))
				} else {
					s.quiet()
				}
				held.end(nil)
				if !rerun {
					s.commits(on("slow", 3))
				}
			})
		})
	}
}

// Behind a turn that takes long before it commits, other turns begin, a few of them.
func TestSlowTurns(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		goOn := make(chan struct{})
		for n := range 4 {
			s.send(fmt.Sprint("slow-", n), request{n: n, fails: func() error { <-goOn; return nil }})
			<-time.After(20 * time.Millisecond)
			synctest.Wait()
			if n < 3 {
				s.put("a", n)
				s.commits(on("a", n))
			}
		}
		s.put("a", 9)
		s.quiet() // the fifth would be too many
		close(goOn)
		s.each(on("slow-0", 0), on("slow-1", 1), on("slow-2", 2), on("slow-3", 3))
		s.commits(on("a", 9))
	})
}

// Requests behind a transaction that does not end are handed back once they have waited for the second patience, at intervals
// that begin with the first patience: those of its lines, and of all that cannot have a turn.
func TestStuck(t *testing.T) {
	inBubble(t, options{Turns: 2}, func(s *store) {
		start := time.Now()
		late := func(after time.Duration, want ...int) {
			t.Helper()
			if got := <-s.stuck; !slices.Equal(got, want) || time.Since(start) != after {
				t.Errorf("after %s %v are late, expected %v after %s", time.Since(start), got, want, after)
			}
		}
		first := s.hold()
		<-time.After(3 * time.Second)
		s.put("held", 1)
		<-time.After(time.Millisecond)
		s.put("a", 2)
		second := s.next(on("a", 2))
		s.put("held", 3)
		s.put("b", 4)
		late(4*time.Second, 1) // the other turn may end soon, and takes b
		late(5*time.Second, 3)
		late(6 * time.Second)                   // still stuck
		late(7 * time.Second)                   //
		late(7*time.Second+time.Millisecond, 4) // now both are
		s.put("a", 5)
		second.end(nil)
		s.commits(on("a", 5))
		first.end(nil)
		<-time.After(time.Hour)
		if len(s.stuck) > 0 {
			t.Error("late although nothing is under way")
		}
		for _, a := range s.ends {
			if slices.Contains(a.numbers, 1) || slices.Contains(a.numbers, 3) || slices.Contains(a.numbers, 4) {
				t.Errorf("%v ended although they were handed back", a.numbers)
			}
		}
	})
}

// Lines that wait to run alone are handed back while all that do so are stuck.
func TestStuckAlone(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		var open []*transaction
		for n := range 16 {
			s.send(fmt.Sprint("large-", n), request{n: n, weight: 100})
			open = append(open, s.next(on(fmt.Sprint("large-", n), n)))
			<-time.After(time.Millisecond)
		}
		s.send("large-16", request{n: 16, weight: 100})
		var late []int
		for n := range 16 {
			if late = <-s.stuck; n < 15 && len(late) > 0 {
				t.Errorf("%v are late behind %d transactions", late, n+1)
			}
		}
		if !slices.Equal(late, []int{16}) {
			t.Errorf("%v are late, expected the line that waits to run alone", late)
		}
		end(open...)
	})
}

// A stuck turn behind which another one begins keeps no line waiting any more.
func TestSlowAndStuck(t *testing.T) {
	inBubble(t, options{Slow: 5 * time.Second}, func(s *store) {
		goOn := make(chan struct{})
		s.send("slow", request{n: 1, fails: func() error { <-goOn; return nil }})
		<-time.After(4500 * time.Millisecond)
		s.put("a", 2)
		<-time.After(501 * time.Millisecond)
		open := s.next(on("a", 2))
		s.put("b", 3)
		<-time.After(3 * time.Second)
		close(goOn)
		s.commits(on("slow", 1))
		open.end(nil)
		s.commits(on("b", 3))
		for len(s.stuck) > 0 {
			if late := <-s.stuck; len(late) > 0 {
				t.Errorf("%v are late", late)
			}
		}
	})
}

// Executors are used again and end on Stop. Submitted requests are done.
func TestStop(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		s.put("a", 1)
		s.commits(on("a", 1))
		if n := s.Idle(); n != 1 {
			t.Errorf("%d executors wait for work, expected 1", n)
		}
		held := s.hold()
		s.put("a", 2)
		if n := s.Waiting(); n != 1 {
			t.Errorf("%d lines wait, expected 1", n)
		}
		s.Stop()
		held.end(nil)
		s.commits(on("a", 2))
		s.Wait()
		s.put("a", 3)
		s.commits(on("a", 3))
		s.Wait()
		if n := s.Idle(); n > 0 {
			t.Errorf("%d executors wait after the end", n)
		}
	})
}
