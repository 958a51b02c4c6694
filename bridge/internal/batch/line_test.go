package batch_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
)

// newBeside returns lanes of which three batches of a key may run at a time. Where a request
// comes from follows from its number: 0 to 9 from nowhere, 10 to 19 from one source, and so on.
func newBeside(t *testing.T, limits batch.Limits) (*batch.Lanes[request, request], *desk) {
	return newLanesWith(t, limits, batch.Overlap[request]{
		Batches: 2,
		Least:   time.Millisecond,
		Source:  func(r request) string { return []string{"", "a", "b", "c", "d", "e"}[r.n/10] },
	})
}

// beside runs a test of such lanes in a bubble.
func beside(t *testing.T, limits batch.Limits, test func(lanes *batch.Lanes[request, request], on *desk)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		test(newBeside(t, limits))
	})
}

func submit(lanes *batch.Lanes[request, request], numbers ...int) {
	for _, n := range numbers {
		lanes.Submit("a", request{n: n, size: 1})
	}
}

// begins is the next batch of the key a, which begins after a time.
func (d *desk) begins(after time.Duration, now ...int) begun {
	d.Helper()
	start := time.Now()
	b := d.expect(d.T, "a", now, nil)
	if took := time.Since(start); took != after {
		d.Errorf("a batch of %v begins after %s, expected after %s", now, took, after)
	}
	return b
}

// none fails if a batch begins before a request has waited for others for long enough.
func (d *desk) none() {
	d.Helper()
	select {
	case b := <-d.begun:
		d.Fatalf("a batch of %v begins", b.now)
	case <-time.After(5 * time.Millisecond):
	}
}

// end ends batches, and the lanes begin what they may begin then.
func end(batches ...begun) {
	for _, b := range batches {
		close(b.end)
	}
	synctest.Wait()
}

// Requests of other sources do not wait for the end of a batch. Those that arrive within a
// millisecond go together.
func TestBatchesBeside(t *testing.T) {
	beside(t, roomy, func(lanes *batch.Lanes[request, request], on *desk) {
		submit(lanes, 10)
		first := on.begins(0, 10)
		submit(lanes, 20)
		<-time.After(600 * time.Microsecond)
		submit(lanes, 30, 31)
		second := on.begins(400*time.Microsecond, 20, 30, 31)
		submit(lanes, 40)
		third := on.begins(time.Millisecond, 40)
		submit(lanes, 50)
		on.none() // no fourth one
		close(second.end)
		end(on.begins(0, 50), first, third)
	})
}

// Requests wait for others to go with although a batch ends meanwhile, but not when it was the
// last one that ran.
func TestPauseGoesOn(t *testing.T) {
	beside(t, roomy, func(lanes *batch.Lanes[request, request], on *desk) {
		submit(lanes, 10)
		first := on.begins(0, 10)
		submit(lanes, 20)
		second := on.begins(time.Millisecond, 20)
		submit(lanes, 30)
		<-time.After(300 * time.Microsecond)
		end(second)
		submit(lanes, 31)
		second = on.begins(700*time.Microsecond, 30, 31)
		submit(lanes, 40)
		<-time.After(300 * time.Microsecond)
		end(first)
		close(second.end)
		third := on.begins(0, 40)
		submit(lanes, 50)
		end(on.begins(time.Millisecond, 50), third)
	})
}

// Requests of one source follow one another, whatever else runs.
func TestSourcesKeepTheirOrder(t *testing.T) {
	beside(t, roomy, func(lanes *batch.Lanes[request, request], on *desk) {
		submit(lanes, 10)
		first := on.begins(0, 10)
		submit(lanes, 11, 12)
		on.none()
		submit(lanes, 20, 13, 21)
		second := on.begins(time.Millisecond, 20, 21)
		submit(lanes, 22)
		on.none()
		close(first.end)
		third := on.begins(0, 11, 12, 13)
		close(third.end)
		on.none()
		close(second.end)
		end(on.begins(0, 22))
	})
}

// A request without a source waits for all earlier ones, and all later ones wait for it.
func TestRequestsWithoutSource(t *testing.T) {
	beside(t, roomy, func(lanes *batch.Lanes[request, request], on *desk) {
		submit(lanes, 10)
		first := on.begins(0, 10)
		submit(lanes, 1)
		on.none()
		submit(lanes, 20, 30)
		on.none()
		close(first.end)
		second := on.begins(0, 1, 20, 30)
		submit(lanes, 40)
		on.none()
		close(second.end)
		third := on.begins(0, 40)
		submit(lanes, 50, 2, 10)
		fourth := on.begins(time.Millisecond, 50)
		close(third.end)
		on.none()
		close(fourth.end)
		end(on.begins(0, 2, 10))
	})
}

// A batch beside others has its limits, too. What does not fit keeps its order.
func TestLimitsBeside(t *testing.T) {
	beside(t, batch.Limits{Requests: 3, Bytes: 100}, func(lanes *batch.Lanes[request, request], on *desk) {
		submit(lanes, 10)
		first := on.begins(0, 10)
		submit(lanes, 20, 11, 21, 22, 23, 30)
		second := on.begins(time.Millisecond, 20, 21, 22)
		third := on.begins(time.Millisecond, 30)
		on.none()
		close(first.end)
		fourth := on.begins(0, 11)
		close(second.end)
		end(third, fourth, on.begins(0, 23))
	})
}

// A batch beside others has at least one request, and no more bytes than it may have.
func TestLargeRequestsBeside(t *testing.T) {
	beside(t, batch.Limits{Requests: 9, Bytes: 100}, func(lanes *batch.Lanes[request, request], on *desk) {
		submit(lanes, 10)
		first := on.begins(0, 10)
		lanes.Submit("a", request{n: 11, size: 60})
		for i, size := range []int{200, 60, 60} {
			lanes.Submit("a", request{n: 20 + 10*i, size: size})
		}
		second := on.begins(time.Millisecond, 20)
		third := on.begins(time.Millisecond, 30)
		close(second.end)
		second = on.begins(0, 40)
		close(first.end)
		end(on.begins(0, 11), second, third)
	})
}

// The longer batches take, the longer a request waits for others to go with: for an eighth
// of that.
func TestPauseBeforeBatchBeside(t *testing.T) {
	beside(t, roomy, func(lanes *batch.Lanes[request, request], on *desk) {
		submit(lanes, 10)
		first := on.begins(0, 10)
		for range 100 {
			<-time.After(80 * time.Millisecond)
			submit(lanes, 10)
			close(first.end)
			first = on.begins(0, 10)
		}
		start := time.Now()
		submit(lanes, 20)
		second := <-on.begun
		if paused := time.Since(start); paused < 9*time.Millisecond || paused > 10*time.Millisecond {
			t.Errorf("a request waits for %s, expected an eighth of 80 ms", paused)
		}
		end(first, second)
	})
}

// Requests that may not run beside others are in a batch that runs alone, in front of those that
// came later. For ten seconds batches follow one another.
func TestReturn(t *testing.T) {
	beside(t, roomy, func(lanes *batch.Lanes[request, request], on *desk) {
		submit(lanes, 10)
		first := on.begins(0, 10)
		submit(lanes, 20, 21, 30)
		second := on.begins(time.Millisecond, 20, 21, 30)
		submit(lanes, 40)
		third := on.begins(time.Millisecond, 40)
		if first.lane.RunsBeside() || !second.lane.RunsBeside() || !third.lane.RunsBeside() {
			on.Error("the batches after the first one run beside others, and do not know it")
		}
		submit(lanes, 22)
		second.lane.Return([]request{{n: 20, size: 1}, {n: 21, size: 1}})
		second.lane.Return([]request{{n: 30, size: 1}})
		close(second.end)
		on.none()
		close(third.end)
		on.none()
		close(first.end)
		again := on.begins(0, 20, 21, 30, 22)
		if again.lane.RunsBeside() {
			on.Error("a batch that runs alone does not know it")
		}
		submit(lanes, 10)
		<-time.After(9900 * time.Millisecond)
		submit(lanes, 11)
		on.none()
		<-time.After(100 * time.Millisecond)
		submit(lanes, 12)
		end(again, on.begins(time.Millisecond, 10, 11, 12))
	})
}

// A conflict does not end sooner what Return has begun.
func TestReturnBeforeConflict(t *testing.T) {
	beside(t, roomy, func(lanes *batch.Lanes[request, request], on *desk) {
		submit(lanes, 10)
		first := on.begins(0, 10)
		submit(lanes, 20)
		second := on.begins(time.Millisecond, 20)
		second.lane.Return([]request{{n: 20, size: 1}})
		close(second.end)
		synctest.Wait()
		first.lane.Conflicted()
		<-time.After(2 * time.Second)
		submit(lanes, 30)
		on.none()
		close(first.end)
		end(on.begins(0, 20, 30))
	})
}

// A client that sends many requests without waiting does not have others look at all of them.
func TestLongLineOfOneSource(t *testing.T) {
	beside(t, roomy, func(lanes *batch.Lanes[request, request], on *desk) {
		submit(lanes, 10)
		first := on.begins(0, 10)
		for range 5000 {
			submit(lanes, 11)
		}
		submit(lanes, 20)
		on.none()
		close(first.end)
		for {
			b := <-on.begun
			close(b.end)
			if slices.Contains(b.now, 20) {
				break
			}
		}
	})
}

// Batches that were in each other's way follow one another for a second.
func TestConflicted(t *testing.T) {
	beside(t, roomy, func(lanes *batch.Lanes[request, request], on *desk) {
		lanes.Submit("b", request{n: 10})
		first := on.expect(on.T, "b", []int{10}, nil)
		first.lane.Conflicted()
		end(first)
		submit(lanes, 10)
		first = on.begins(0, 10)
		submit(lanes, 20)
		end(first, on.begins(time.Millisecond, 20)) // the other key's have nothing to do with it

		submit(lanes, 10)
		first = on.begins(0, 10)
		first.lane.Conflicted()
		submit(lanes, 20)
		<-time.After(time.Second - time.Nanosecond)
		submit(lanes, 21)
		on.none()
		submit(lanes, 22)
		end(first, on.begins(time.Millisecond, 20, 21, 22))
	})
}

// Clients that each wait for their answers get nearly one answer in the time of a batch,
// however many they are.
func TestWaitsBesideBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const clients, batchTime, answers = 1000, 10 * time.Millisecond, 100
		answered := make([]chan struct{}, clients)
		for i := range answered {
			answered[i] = make(chan struct{}, 1)
		}
		lanes := batch.New(batch.Options[request, request]{
			Limits:  batch.Limits{Requests: clients, Bytes: 1 << 20},
			Overlap: batch.Overlap[request]{Batches: 3, Least: time.Millisecond, Source: func(r request) string { return strconv.Itoa(r.n) }},
			Worker: func(*batch.Lane[request, request]) batch.Worker[request, request] {
				return answerer{batchTime, answered}
			},
			Size:   func(request) int { return 1 },
			Waited: func(request) time.Duration { return 0 },
			Stuck:  func([]request) {},
		})
		start := time.Now()
		var running sync.WaitGroup
		for n := range clients {
			running.Go(func() {
				for range answers {
					lanes.Submit("a", request{n: n})
					<-answered[n]
				}
			})
		}
		running.Wait()
		if each := time.Since(start) / answers; each > batchTime*100/80 {
			t.Errorf("an answer takes %s, expected at most 1.25 times the %s of a batch", each, batchTime)
		}
		lanes.Stop()
		lanes.Wait()
	})
}

// answerer answers requests after a time.
type answerer struct {
	after    time.Duration
	answered []chan struct{}
}

func (a answerer) Begin(string) {}

func (a answerer) Work(now batch.Batch[request, request]) {
	<-time.After(a.after)
	for _, r := range now.Requests {
		a.answered[r.n] <- struct{}{}
	}
}

// Whatever arrives when, every request is in one batch. It does not run beside one that has to
// keep its order to it, and does not overtake one.
func TestRandomBatchesBeside(t *testing.T) {
	t.Parallel()
	most := 0
	for range 20 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) {
			lanes, on := newBeside(t, batch.Limits{Requests: 5, Bytes: 100})
			most = max(most, randomBatches(t, seed, lanes, on))
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
	if most != 3 {
		t.Errorf("at most %d batches ran at a time, expected 3", most)
	}
}

// ordered reports whether two requests keep their order.
func ordered(a, b int) bool { return a < 10 || b < 10 || a/10 == b/10 }

// randomBatches submits requests and ends batches. It returns how many ran at a time.
func randomBatches(t *testing.T, seed uint64, lanes *batch.Lanes[request, request], on *desk) (most int) {
	random := rand.New(rand.NewPCG(seed, 0))
	var waiting []int
	var open []begun
	begins := func(b begun) {
		for _, n := range b.now {
			at := slices.IndexFunc(waiting, func(m int) bool { return ordered(m, n) })
			if at < 0 || waiting[at] != n {
				t.Fatalf("request %d is in a batch, while %v wait", n, waiting)
			}
			waiting = slices.Delete(waiting, at, at+1)
			for _, other := range open {
				if slices.ContainsFunc(other.now, func(m int) bool { return ordered(m, n) }) {
					t.Errorf("request %d runs beside %v", n, other.now)
				}
			}
		}
		open = append(open, b)
	}
	for count := 0; count < 500 || len(waiting)+len(open) > 0; {
		synctest.Wait()
		select {
		case b := <-on.begun:
			begins(b)
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
			submit(lanes, n)
		case what < 8 || len(open) == 0:
			<-time.After(time.Duration(random.IntN(2000)) * time.Microsecond)
		default:
			i := random.IntN(len(open))
			close(open[i].end)
			open = slices.Delete(open, i, i+1)
		}
	}
	return most
}

// Requests behind batches that run beside each other and do not end are handed back once,
// whichever batch is looked at first. A batch that has ended hands nothing back.
func TestStuckBesideOthers(t *testing.T) {
	beside(t, roomy, func(lanes *batch.Lanes[request, request], on *desk) {
		began := time.Now()
		submit := func(numbers ...int) {
			for _, n := range numbers {
				lanes.Submit("a", request{n: n, size: 1, arrived: time.Now()})
			}
		}
		submit(10)
		first := on.begins(0, 10)
		first.lane.SetBusy(true)
		submit(20)
		second := on.begins(time.Millisecond, 20)
		second.lane.SetBusy(true)
		submit(30)
		third := on.begins(time.Millisecond, 30) // it does not say that it is busy
		submit(40, 11, 41)
		late := func(after time.Duration, want ...int) {
			on.Helper()
			if got := numbers(<-on.stuck); !slices.Equal(got, want) || time.Since(began) != after {
				on.Errorf("after %s %v are late, expected %v after %s", time.Since(began), got, want, after)
			}
		}
		late(4000*time.Millisecond, 40, 11, 41)
		late(4001 * time.Millisecond)
		submit(50, 12)
		late(5000 * time.Millisecond)
		late(5001*time.Millisecond, 50, 12)
		first.lane.SetBusy(false)
		late(6001 * time.Millisecond)
		second.lane.SetBusy(false)
		end(first, second, third)
		<-time.After(time.Hour)
		if len(on.stuck) > 0 {
			on.Error("late although nothing is under way")
		}
	})
}
