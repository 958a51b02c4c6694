package turns_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
)

// Requests that go ahead are before the others of their line, in their order, and leave them half of the room.
func TestAhead(t *testing.T) {
	inBubble(t, options{Limits: batch.Limits{Requests: 8, Bytes: 100}}, func(s *store) {
		ahead := func(numbers ...int) {
			for _, n := range numbers {
				s.send("a", request{n: n, ahead: true})
			}
		}
		held := s.hold()
		s.put("a", 1, 2)
		ahead(11)
		s.put("a", 3)
		ahead(12)
		held.end(nil)
		tx := s.next(on("a", 11, 12, 1, 2, 3))
		ahead(13, 14, 15, 16, 17, 18, 19, 20, 21)
		s.put("a", 4, 5, 6, 7, 8, 9)
		tx.end(nil)
		s.commits(on("a", 13, 14, 15, 16, 17, 18, 19, 20, 4, 5, 6, 7))
		s.commits(on("a", 21, 8, 9))

		held = s.hold()
		s.send("a", request{n: 22, ahead: true, size: 20})
		s.send("a", request{n: 23, ahead: true, size: 20})
		for n := 24; n < 27; n++ {
			s.send("a", request{n: n, size: 25})
		}
		held.end(nil)
		s.commits(on("a", 22, 23, 24, 25)) // by bytes
		s.commits(on("a", 26))

		held = s.hold()
		s.put("a", 31)
		s.send("a", request{n: 32, unserved: times(1)})
		s.put("a", 33)
		ahead(41)
		held.end(nil)
		tx = s.next(on("a", 41, 31, 32, 33))
		ahead(42)
		s.put("a", 34)
		tx.end(nil)
		s.commits(on("a", 42, 32, 33, 34)) // those that come back are before those that came meanwhile
	})
}

// They are before the others, too, when the line gives the rest of a turn's room.
func TestAheadInTheRest(t *testing.T) {
	inBubble(t, options{Limits: batch.Limits{Requests: 8, Bytes: 100}}, func(s *store) {
		held := s.hold()
		s.put("a", 1, 2, 3)
		for n := 11; n < 14; n++ {
			s.send("a", request{n: n, ahead: true})
		}
		for n := range 3 {
			s.put(fmt.Sprint("b", n), 21+n)
		}
		held.end(nil)
		s.commits(on("a", 11, 12, 13, 1, 2), on("b0", 21), on("b1", 22), on("b2", 23))
		s.commits(on("a", 3))
	})
}

// Requests that go ahead and come back stay ahead.
func TestAheadComeBack(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.put("b", 1)
		s.put("a", 2)
		s.send("a", request{n: 11, ahead: true, fails: once(errBroken)})
		held.end(nil)
		tx := s.next(on("b", 1))
		s.send("a", request{n: 12, ahead: true})
		tx.end(nil)
		s.commits(on("a", 11, 12, 2))
	})
}

// times counts to n.
func times(n int) *int { return &n }

// once fails the first time.
func once(err error) func() error { return fails(0, 1, err).fails }

// A line that is woken gets a turn, with requests or without. The part adds what it does then.
func TestWake(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		wake := func(key string, adds ...int) {
			s.adds[key] = adds
			s.Wake(turns.Key{Queue: key})
		}
		wake("a", 1)
		tx := s.next(on("a", 1))
		wake("a", 2) // while it has a turn
		wake("b", 3)
		s.put("b", 4)
		wake("c") // for nothing
		tx.end(nil)
		s.commits(on("b", 4, 3), on("a", 2))
		s.quiet()
		wake("c")
		s.put("a", 5)
		s.commits(on("a", 5))
	})
}

// Work of a part that does not take effect goes back to the part, and the line gets another turn.
func TestOwnWorkComesBack(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.adds["a"] = []int{1}
		s.Wake(turns.Key{Queue: "a"})
		s.send("a", request{n: 2, fails: once(errBroken)})
		s.put("b", 3)
		held.end(nil)
		s.commits(on("b", 3))
		s.commits(on("a", 2, 1))
		s.ended("a", 1, nil)
	})
}

// All parts turn to their requests before the first of them waits for what it has begun. Those of an earlier kind do their work first.
func TestKinds(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.calls = nil
		for i, key := range []string{"late", "early", "last"} {
			s.Submit(turns.Key{Kind: []int{1, 0, 1}[i], Queue: key}, request{n: i, arrived: time.Now()})
		}
		s.Submit(turns.Key{Queue: "late"}, request{n: 3, arrived: time.Now()}) // another line
		held.end(nil)
		s.commits(on("early", 1), on("late", 3), on("late", 0), on("last", 2))
		if got, want := strings.Join(s.calls, ", "), "open late, open early, open last, open late, todo early, todo late, todo late, todo last"; got != want {
			t.Errorf("called: %s; expected %s", got, want)
		}
	})
}

// A line whose part learns something before the commit leaves the turn, and runs alone. The others run again at once, and none runs
// alone for long.
func TestUnsure(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.put("a", 1)
		left := times(3)
		s.send("b", request{n: 2, unsure: left})
		s.put("c", 3)
		held.end(nil)
		s.commits(on("a", 1), on("c", 3))
		s.commits(on("b", 2)) // after two more of its own
		if *left != 0 || s.calls[len(s.calls)-2] != "open b alone" {
			t.Errorf("b commits although its part would not let it %d times; called: %q", *left, s.calls)
		}
		for key, n := range map[string]int{"a": 1, "b": 2, "c": 3} {
			s.ended(key, n, nil)
		}
		held = s.hold()
		s.put("b", 4)
		s.put("a", 5)
		s.quiet()
		held.end(nil)
		s.commits(on("b", 4), on("a", 5))
	})
}

// Two lines learn something in one turn, and later a third one fails: none takes another one with it.
func TestUnsureAndFailure(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.send("a", request{n: 1, unsure: times(1)})
		s.send("b", request{n: 2, unsure: times(1)})
		third := 0
		s.send("c", request{n: 3, fails: func() error { third++; return nil }})
		runs := 0
		s.send("d", request{n: 4, fails: func() error {
			if runs++; runs == 2 {
				return errBroken
			}
			return nil
		}})
		held.end(nil)
		s.commits(on("c", 3))
		s.each(on("a", 1), on("b", 2), on("d", 4))
		if third != 3 {
			t.Errorf("c ran %d times, expected once with all, once without a and b, and once without d", third)
		}
	})
}

// Requests that were not served go back to the front of their line. Others get a turn before.
func TestUnserved(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.put("a", 1)
		s.send("a", request{n: 2, unserved: times(2)})
		s.put("a", 3)
		s.put("b", 4)
		held.end(nil)
		tx := s.next(on("a", 1, 2, 3), on("b", 4))
		s.put("a", 5)
		tx.end(nil)
		s.commits(on("a", 2, 3, 5)) // none is served
		s.commits(on("a", 2, 3, 5))
		for _, n := range []int{1, 2, 3, 5} {
			s.ended("a", n, nil)
		}
	})
}

// Requests behind those that failed the transaction of a line alone go back, too, when it does not serve all.
func TestUnservedAfterFailure(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		held := s.hold()
		s.put("held", 1)
		s.send("held", request{n: 2, unserved: times(1)})
		s.send("held", fails(3, 9, errBroken))
		s.put("held", 4)
		held.end(nil)
		s.commits(on("held", 1, 2))
		s.commits(on("held", 2))
		s.commits(on("held", 4))
		s.ended("held", 3, errBroken)
	})
}

// A part may mend an error: then the requests that it leaves run again together.
func TestMend(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		s.put("a", 1)
		tx := s.next(on("a", 1))
		s.put("a", 2)
		for n := 3; n < 5; n++ {
			s.send("a", request{n: n, fails: func() error { return errBroken }, mended: errBroken})
		}
		s.put("a", 5)
		tx.end(nil)
		s.commits(on("a", 2, 5))
		s.ended("a", 3, errBroken)
		s.ended("a", 4, errBroken)

		s.send("a", request{n: 6, fails: func() error { return errBroken }, mended: errBroken})
		s.ended("a", 6, errBroken) // none is left
		s.quiet()
	})
}

// A line alone that lost a conflict asks its part whether to try again.
func TestAgain(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		s.put("a", 1)
		s.next(on("a", 1)).end(errConflict)
		tx := s.next(on("a", 1))
		s.again = errBroken
		tx.end(errConflict)
		s.ended("a", 1, errBroken)
	})
}

// Parts know what the parts before them have left of a transaction's room. Each transaction has all of it.
func TestRoom(t *testing.T) {
	inBubble(t, options{Limits: batch.Limits{Requests: 10, Bytes: 100}}, func(s *store) {
		held := s.hold()
		s.rooms = nil
		s.put("a", 1, 2)
		s.put("b", 3)
		s.put("c", 4)
		held.end(nil)
		s.commits(on("a", 1, 2), on("b", 3), on("c", 4))
		s.put("a", 5)
		s.commits(on("a", 5))
		if want := []int{10, 8, 7, 10}; !slices.Equal(s.rooms, want) {
			t.Errorf("parts have room for %v requests, expected %v", s.rooms, want)
		}
	})
}

// A part that waits before its transaction holds up other lines no longer than one that takes as long within.
func TestWaitBeforeTheTransaction(t *testing.T) {
	inBubble(t, options{}, func(s *store) {
		s.waits["slow"] = make(chan struct{})
		s.put("slow", 1)
		synctest.Wait() // its part waits
		<-time.After(19 * time.Millisecond)
		s.put("a", 2)
		<-time.After(time.Millisecond)
		s.commits(on("a", 2))
		close(s.waits["slow"])
		s.commits(on("slow", 1))
	})
}
