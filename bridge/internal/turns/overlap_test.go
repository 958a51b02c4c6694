package turns_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
)

// sources lets three turns have requests of a line at a time. Where a request comes from follows from its number: 0 to 9 from
// nowhere, 10 to 19 from one source, and so on.
var sources = turns.Overlap[request]{
	Turns:  2,
	Least:  time.Millisecond,
	Source: func(r request) string { return []string{"", "a", "b", "c", "d", "e"}[r.n/10] },
}

// patient has no request handed back.
var patient = batch.Patience{First: time.Hour, Then: time.Hour}

// beside runs a test of turns that overlap.
func beside(t *testing.T, limits batch.Limits, test func(s *store)) {
	t.Helper()
	inBubble(t, options{Limits: limits, Turns: 10, Overlap: sources, Early: true, Patience: patient}, test)
}

// begins is the next turn, which does requests of the line a, or none, and begins after a time.
func (s *store) begins(after time.Duration, numbers ...int) *transaction {
	s.Helper()
	start := time.Now()
	var want []done
	if len(numbers) > 0 {
		want = append(want, on("a", numbers...))
	}
	tx := s.next(want...)
	if took := time.Since(start); took != after {
		s.Errorf("a turn of %v begins after %s, expected after %s", numbers, took, after)
	}
	return tx
}

// end has turns commit, and those begin that may begin then.
func end(open ...*transaction) {
	for _, tx := range open {
		tx.commit <- nil
	}
	synctest.Wait()
}

// Requests of other sources do not wait for the end of a batch. Those that arrive within a
// millisecond go together.
func TestTurnsBeside(t *testing.T) {
	beside(t, roomy, func(s *store) {
		s.put("a", 10)
		first := s.begins(0, 10)
		s.put("a", 20)
		<-time.After(600 * time.Microsecond)
		s.put("a", 30, 31)
		second := s.begins(400*time.Microsecond, 20, 30, 31)
		s.put("a", 40)
		third := s.begins(time.Millisecond, 40)
		s.put("a", 50)
		s.quiet() // no fourth one
		second.end(nil)
		end(s.begins(0, 50), first, third)
	})
}

// Requests wait for others to go with although a batch ends meanwhile, but not when it was the
// last one that ran.
func TestPauseGoesOn(t *testing.T) {
	beside(t, roomy, func(s *store) {
		s.put("a", 10)
		first := s.begins(0, 10)
		s.put("a", 20)
		second := s.begins(time.Millisecond, 20)
		s.put("a", 30)
		<-time.After(300 * time.Microsecond)
		end(second)
		s.put("a", 31)
		second = s.begins(700*time.Microsecond, 30, 31)
		s.put("a", 40)
		<-time.After(300 * time.Microsecond)
		end(first)
		second.end(nil)
		third := s.begins(0, 40)
		s.put("a", 50)
		end(s.begins(time.Millisecond, 50), third)
	})
}

// Requests of one source follow one another, whatever else runs.
func TestSourcesKeepTheirOrder(t *testing.T) {
	beside(t, roomy, func(s *store) {
		s.put("a", 10)
		first := s.begins(0, 10)
		s.put("a", 11, 12)
		s.quiet()
		s.put("a", 20, 13, 21)
		second := s.begins(time.Millisecond, 20, 21)
		s.put("a", 22)
		s.quiet()
		first.end(nil)
		third := s.begins(0, 11, 12, 13)
		third.end(nil)
		s.quiet()
		second.end(nil)
		end(s.begins(0, 22))
	})
}

// A request without a source waits for all earlier ones, and all later ones wait for it.
func TestRequestsWithoutSource(t *testing.T) {
	beside(t, roomy, func(s *store) {
		s.put("a", 10)
		first := s.begins(0, 10)
		s.put("a", 1)
		s.quiet()
		s.put("a", 20, 30)
		s.quiet()
		first.end(nil)
		second := s.begins(0, 1, 20, 30)
		s.put("a", 40)
		s.quiet()
		second.end(nil)
		third := s.begins(0, 40)
		s.put("a", 50, 2, 10)
		fourth := s.begins(time.Millisecond, 50)
		third.end(nil)
		s.quiet()
		fourth.end(nil)
		end(s.begins(0, 2, 10))
	})
}

// A batch beside others has its limits, too. What does not fit keeps its order.
func TestLimitsBeside(t *testing.T) {
	beside(t, batch.Limits{Requests: 3, Bytes: 100}, func(s *store) {
		s.put("a", 10)
		first := s.begins(0, 10)
		s.put("a", 20, 11, 21, 22, 23, 30)
		second := s.begins(time.Millisecond, 20, 21, 22)
		third := s.begins(time.Millisecond, 30)
		s.quiet()
		first.end(nil)
		fourth := s.begins(0, 11)
		second.end(nil)
		end(third, fourth, s.begins(0, 23))
	})
}

// A batch beside others has at least one request, and no more bytes than it may have.
func TestLargeRequestsBeside(t *testing.T) {
	beside(t, batch.Limits{Requests: 9, Bytes: 100}, func(s *store) {
		s.put("a", 10)
		first := s.begins(0, 10)
		s.send("a", request{n: 11, size: 60})
		for i, size := range []int{200, 60, 60} {
			s.send("a", request{n: 20 + 10*i, size: size})
		}
		second := s.begins(time.Millisecond, 20)
		third := s.begins(time.Millisecond, 30)
		second.end(nil)
		second = s.begins(0, 40)
		first.end(nil)
		end(s.begins(0, 11), second, third)
	})
}

// The longer batches take, the longer a request waits for others to go with: for an eighth
// of that.
func TestPauseBeforeBatchBeside(t *testing.T) {
	beside(t, roomy, func(s *store) {
		s.put("a", 10)
		first := s.begins(0, 10)
		for range 100 {
			<-time.After(80 * time.Millisecond)
			s.put("a", 10)
			first.end(nil)
			first = s.begins(0, 10)
		}
		start := time.Now()
		s.put("a", 20)
		second := <-s.begun
		if paused := time.Since(start); paused < 9*time.Millisecond || paused > 10*time.Millisecond {
			t.Errorf("a request waits for %s, expected an eighth of 80 ms", paused)
		}
		end(first, second)
	})
}

// follows is a request that has to follow other turns. It notes whether another turn may have been under way.
func follows(n int) request {
	return request{n: n, follows: true}
}

// Requests that have to follow other turns are in a turn that runs alone, in front of those that came later. For ten seconds
// the turns of the line follow one another. The first turn of a line is none of those.
func TestFollow(t *testing.T) {
	beside(t, roomy, func(s *store) {
		s.send("a", follows(10))
		first := s.begins(0, 10)
		s.put("a", 20, 21)
		s.send("a", follows(30))
		second := s.begins(time.Millisecond)
		s.put("b", 1)
		s.commits(on("b", 1))
		s.put("a", 22)
		second.end(nil)
		s.quiet()
		first.end(nil)
		again := s.begins(0, 20, 21, 30, 22)
		s.put("a", 10)
		<-time.After(9900*time.Millisecond - 5*time.Millisecond)
		s.put("a", 11)
		s.quiet()
		<-time.After(100 * time.Millisecond)
		s.put("a", 12)
		end(again, s.begins(time.Millisecond, 10, 11, 12))
		for _, n := range []int{20, 21, 30, 22} {
			s.ended("a", n, nil)
		}
	})
}

// A conflict does not end sooner what ErrFollow has begun.
func TestFollowBeforeConflict(t *testing.T) {
	beside(t, roomy, func(s *store) {
		s.put("a", 10)
		first := s.begins(0, 10)
		s.send("a", follows(20))
		s.begins(time.Millisecond).end(nil)
		first.end(errConflict)
		first = s.begins(0, 10)
		<-time.After(2 * time.Second)
		s.put("a", 30)
		s.quiet()
		first.end(nil)
		end(s.begins(0, 20, 30))
	})
}

// Lines that follow no other turn have their part of a turn, whatever the others do.
func TestFollowAmongOthers(t *testing.T) {
	inBubble(t, options{Overlap: sources, Turns: 2, Patience: patient}, func(s *store) {
		first, second := s.hold(), (*transaction)(nil)
		s.put("a", 10)
		second = s.next(on("a", 10))
		s.send("a", follows(20))
		s.put("b", 30)
		<-time.After(2 * time.Millisecond) // a waits for a turn, too
		first.end(nil)
		s.commits(on("b", 30))
		s.quiet()
		second.end(nil)
		s.commits(on("a", 20))
	})
}

// A client that sends many requests without waiting does not have others look at all of them.
func TestLongLineOfOneSource(t *testing.T) {
	beside(t, roomy, func(s *store) {
		s.put("a", 10)
		first := s.begins(0, 10)
		for range 5000 {
			s.put("a", 11)
		}
		s.put("a", 20)
		s.quiet()
		first.end(nil)
		for {
			tx := <-s.begun
			tx.end(nil)
			if slices.Contains(tx.done[0].numbers, 20) {
				break
			}
		}
	})
}

// Turns of a line follow one another for a second after a conflict. Another line has nothing to do with it.
func TestTurnsAfterConflict(t *testing.T) {
	beside(t, roomy, func(s *store) {
		s.put("b", 10)
		s.next(on("b", 10)).end(errConflict)
		s.commits(on("b", 10))
		s.put("a", 10)
		first := s.begins(0, 10)
		s.put("a", 20)
		end(first, s.begins(time.Millisecond, 20))

		s.put("a", 10)
		s.begins(0, 10).end(errConflict)
		first = s.begins(0, 10)
		s.put("a", 20)
		<-time.After(time.Second - time.Nanosecond)
		s.put("a", 21)
		s.quiet()
		s.put("a", 22)
		end(first, s.begins(time.Millisecond, 20, 21, 22))
	})
}

// Clients that each wait for their answers get nearly one answer in the time of a batch,
// however many they are.
func TestWaitsBesideTurns(t *testing.T) {
	const clients, turnTime, answers = 1000, 10 * time.Millisecond, 100
	overlap := turns.Overlap[request]{Turns: 3, Least: time.Millisecond, Source: func(r request) string { return strconv.Itoa(r.n) }}
	beside := options{Limits: batch.Limits{Requests: clients, Bytes: 1 << 20}, Turns: 4, Overlap: overlap, Early: true}
	beside.Update = func(fn func(*transaction) error) error {
		err := fn(new(transaction))
		<-time.After(turnTime)
		return err
	}
	inBubble(t, beside, func(s *store) {
		answered := make([]chan struct{}, clients)
		for i := range answered {
			answered[i] = make(chan struct{}, 1)
		}
		s.answer = func(requests []request) {
			for _, r := range requests {
				answered[r.n] <- struct{}{}
			}
		}
		start := time.Now()
		var running sync.WaitGroup
		for n := range clients {
			running.Go(func() {
				for range answers {
					s.put("a", n)
					<-answered[n]
				}
			})
		}
		running.Wait()
		if each := time.Since(start) / answers; each > turnTime*100/80 {
			t.Errorf("an answer takes %s, expected at most 1.25 times the %s of a turn", each, turnTime)
		}
	})
}

// Whatever arrives when, every request is in one turn. It does not run beside one that has to keep its order to it, and does not
// overtake one.
func TestRandomTurnsBeside(t *testing.T) {
	t.Parallel()
	most := 0
	for range 20 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, options{Limits: batch.Limits{Requests: 5, Bytes: 100}, Turns: 10, Overlap: sources})
			most = max(most, s.random(seed))
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
	if most != 3 {
		t.Errorf("at most %d turns were under way at a time, expected 3", most)
	}
}

// ordered reports whether two requests keep their order.
func ordered(a, b int) bool { return a < 10 || b < 10 || a/10 == b/10 }

// random submits requests and ends turns. It returns how many were under way at a time.
func (s *store) random(seed uint64) (most int) {
	random := rand.New(rand.NewPCG(seed, 0))
	var waiting []int
	var open []*transaction
	begins := func(tx *transaction) {
		for _, n := range tx.done[0].numbers {
			at := slices.IndexFunc(waiting, func(m int) bool { return ordered(m, n) })
			if at < 0 || waiting[at] != n {
				s.Fatalf("request %d is in a turn, while %v wait", n, waiting)
			}
			waiting = slices.Delete(waiting, at, at+1)
			for _, other := range open {
				if slices.ContainsFunc(other.done[0].numbers, func(m int) bool { return ordered(m, n) }) {
					s.Errorf("request %d runs beside %v", n, other.done)
				}
			}
		}
		open = append(open, tx)
	}
	for count := 0; count < 500 || len(waiting)+len(open) > 0; {
		synctest.Wait()
		select {
		case tx := <-s.begun:
			begins(tx)
			most = max(most, len(open))
			continue
		default:
		}
		switch what := random.IntN(10); {
		case what < 6 && count < 500:
			n := 10*random.IntN(6) + random.IntN(10)
			if n < 10 && random.IntN(4) > 0 {
				continue
			}
			count++
			waiting = append(waiting, n)
			s.put("a", n)
		case what < 8 || len(open) == 0:
			<-time.After(time.Duration(random.IntN(2000)) * time.Microsecond)
		default:
			i := random.IntN(len(open))
			open[i].end(nil)
			open = slices.Delete(open, i, i+1)
		}
	}
	return most
}

// Requests behind turns that run beside each other and do not end are handed back once, whichever turn is looked at first.
// A turn that has ended hands nothing back.
func TestStuckBesideOthers(t *testing.T) {
	inBubble(t, options{Turns: 10, Overlap: sources, Early: true}, func(s *store) {
		began := time.Now()
		s.put("a", 10)
		first := s.begins(0, 10)
		s.put("a", 20)
		second := s.begins(time.Millisecond, 20)
		s.put("a", 30)
		third := s.begins(time.Millisecond, 30)
		s.put("a", 40, 11, 41)
		late := func(after time.Duration, want ...int) {
			s.Helper()
			if got := <-s.stuck; !slices.Equal(got, want) || time.Since(began) != after {
				s.Errorf("after %s %v are late, expected %v after %s", time.Since(began), got, want, after)
			}
		}
		late(4000*time.Millisecond, 40, 11, 41)
		late(4001 * time.Millisecond)
		late(4002 * time.Millisecond)
		third.end(nil)
		s.put("a", 50, 12)
		fourth := s.begins(4000*time.Millisecond/16/8, 50)
		late(5000 * time.Millisecond)
		first.end(nil)
		late(5001 * time.Millisecond)
		end(second, fourth)
		s.commits(on("a", 12))
		<-time.After(time.Hour)
		if len(s.stuck) > 0 {
			s.Error("late although nothing is under way")
		}
	})
}
