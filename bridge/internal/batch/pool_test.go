package batch_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
)

// request is what the pool of these tests carries.
type request struct {
	n, size int
	arrived time.Time
}

// work tells of each batch and does it when it may. Each key that begins has to end.
type work struct {
	slot *batch.Slot[request]
	key  string
	on   *desk
}

// desk is where the workers of a pool report.
type desk struct {
	*testing.T
	begun   chan begun
	stuck   chan []request
	workers atomic.Int32 // that were made
}

// begun is a batch that a worker has begun.
type begun struct {
	key  string
	slot *batch.Slot[request]
	now  []int
	end  chan struct{} // to be closed
}

func numbers(requests []request) (n []int) {
	for _, r := range requests {
		n = append(n, r.n)
	}
	return n
}

func (w *work) Begin(key string) { w.key = key }

func (w *work) Work(now []request) {
	b := begun{w.key, w.slot, numbers(now), make(chan struct{})}
	w.on.begun <- b
	<-b.end
}

// newPool returns a pool that ends with the test, which may leave no batch undone.
func newPool(t *testing.T, limits batch.Limits) (*batch.Pool[request], *desk) {
	on := &desk{T: t, begun: make(chan begun), stuck: make(chan []request, 16)}
	pool := batch.New(batch.Options[request]{
		Limits:   limits,
		Patience: batch.Patience{First: 4 * time.Second, Then: time.Second},
		Worker: func(l *batch.Slot[request]) batch.Worker[request] {
			on.workers.Add(1)
			return &work{slot: l, on: on}
		},
		Size:   func(r request) int { return r.size },
		Waited: func(r request) time.Duration { return time.Since(r.arrived) },
		Stuck:  func(late []request) { on.stuck <- late },
	})
	t.Cleanup(func() {
		pool.Stop()
		pool.Wait()
	})
	return pool, on
}

// expect is the next batch that a worker begins.
func (d *desk) expect(t *testing.T, key string, now []int) begun {
	t.Helper()
	b := <-d.begun
	if b.key != key || !slices.Equal(b.now, now) {
		t.Errorf("a batch of %s: %v, expected %s: %v", b.key, b.now, key, now)
	}
	return b
}

var roomy = batch.Limits{Requests: 100, Bytes: 1 << 20}

// Requests that arrive while a batch runs are the next batch, in order. Other keys do not
// wait.
func TestBatches(t *testing.T) {
	t.Parallel()
	pool, on := newPool(t, roomy)
	pool.Submit("a", request{n: 1})
	first := on.expect(t, "a", []int{1})
	for n := 2; n < 5; n++ {
		pool.Submit("a", request{n: n})
	}
	pool.Submit("b", request{n: 9})
	close(on.expect(t, "b", []int{9}).end)
	close(first.end)
	second := on.expect(t, "a", []int{2, 3, 4})
	pool.Submit("a", request{n: 5})
	close(second.end)
	close(on.expect(t, "a", []int{5}).end)
}

// A batch has a bounded number of requests and bytes, and at least one request.
func TestBatchLimits(t *testing.T) {
	t.Parallel()
	pool, on := newPool(t, batch.Limits{Requests: 3, Bytes: 100})
	pool.Submit("a", request{n: 0})
	held := on.expect(t, "a", []int{0})
	for n, size := range []int{1, 1, 1, 1, 200, 60, 40, 1} {
		pool.Submit("a", request{n: n, size: size})
	}
	close(held.end)
	for _, want := range [][]int{{0, 1, 2}, {3}, {4}, {5, 6}, {7}} {
		close(on.expect(t, "a", want).end)
	}
}

// A line whose first request has waited for too long has no place for another one.
func TestLineIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool, on := newPool(t, batch.Limits{Requests: 1, Bytes: 100, Wait: time.Second})
		submit := func(n int, want bool) {
			t.Helper()
			if got := pool.Submit("a", request{n: n, arrived: time.Now()}); got != want {
				t.Errorf("request %d has a place: %t", n, got)
			}
		}
		submit(1, true)
		first := on.expect(t, "a", []int{1})
		<-time.After(2 * time.Second) // a batch that runs is not in line
		submit(2, true)
		<-time.After(time.Second)
		submit(3, true)
		<-time.After(time.Nanosecond)
		submit(4, false)
		close(first.end)
		second := on.expect(t, "a", []int{2})
		submit(5, true)
		close(second.end)
		for _, n := range []int{3, 5} {
			close(on.expect(t, "a", []int{n}).end)
		}
	})
}

// Slots are reused and end on Stop. Submitted requests are done.
func TestStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool, on := newPool(t, roomy)
		pool.Submit("a", request{n: 1})
		held := on.expect(t, "a", []int{1})
		pool.Submit("b", request{n: 9})
		close(on.expect(t, "b", []int{9}).end)
		synctest.Wait()
		if n := pool.Idle(); n != 1 {
			t.Errorf("%d slots wait for work, expected 1", n)
		}
		pool.Submit("a", request{n: 2})
		pool.Stop()
		close(held.end)
		close(on.expect(t, "a", []int{2}).end)
		pool.Wait()
		pool.Submit("a", request{n: 3})
		close(on.expect(t, "a", []int{3}).end)
		pool.Wait()
		if n := pool.Idle(); n > 0 {
			t.Errorf("%d slots wait after the end", n)
		}
	})
}

// What one key leaves behind is no other key's.
func TestKeysOneAfterAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool, on := newPool(t, roomy)
		pool.Submit("a", request{n: 1})
		close(on.expect(t, "a", []int{1}).end)
		synctest.Wait()
		pool.Submit("b", request{n: 2})
		held := on.expect(t, "b", []int{2})
		pool.Submit("a", request{n: 3})
		close(on.expect(t, "a", []int{3}).end)
		close(held.end)
	})
}

// Slots without work are kept and used again, but not too many.
func TestIdleSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 64
		pool, on := newPool(t, roomy)
		for round := range 2 {
			var held []begun
			for key := range most + 10 {
				pool.Submit(string(rune('a'+key)), request{})
				held = append(held, <-on.begun)
			}
			for _, b := range held {
				close(b.end)
			}
			synctest.Wait()
			if n := pool.Idle(); n != most {
				t.Errorf("%d slots wait for work, expected %d", n, most)
			}
			if n, want := on.workers.Load(), int32(most+10*(1+round)); n != want {
				t.Errorf("%d workers were made, expected %d", n, want)
			}
		}
	})
}

// Requests behind a transaction that does not end are handed back once they have waited
// for the second patience, at intervals that begin with the first patience.
func TestStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool, on := newPool(t, roomy)
		submit := func(n int) { pool.Submit("a", request{n: n, arrived: time.Now()}) }
		submit(1)
		b := <-on.begun
		b.slot.SetBusy(true)
		submit(2)
		<-time.After(3 * time.Second)
		submit(3)
		<-time.After(time.Millisecond)
		submit(4)
		start := time.Now()
		late := func(after time.Duration, want ...int) {
			t.Helper()
			if got := numbers(<-on.stuck); !slices.Equal(got, want) || time.Since(start) != after {
				t.Errorf("after %s %v are late, expected %v after %s", time.Since(start), got, want, after)
			}
		}
		late(999*time.Millisecond, 2, 3) // 4 s after it began
		late(1999*time.Millisecond, 4)
		late(2999 * time.Millisecond) // still stuck
		submit(5)
		b.slot.SetBusy(false)
		<-time.After(time.Hour)
		if len(on.stuck) > 0 {
			t.Error("late although nothing is under way")
		}
		b.slot.SetBusy(true)
		start = time.Now()
		late(4*time.Second, 5)
		b.slot.SetBusy(false)
		close(b.end)
	})
}

var (
	errPoison = errors.New("this request cannot be done")
	errStore  = errors.New("nothing can be done")
)

// transactions serve numbers. Some make every transaction fail that they are part of.
type transactions struct {
	poison map[int]bool
	blind  bool // nobody knows which request made a transaction fail
	most   int  // requests that one transaction serves; 0: any number
	down   int  // transactions from this one on fail as a whole; 0: none

	tried    int
	answered []int
	failed   map[int]error
	empty    bool // it was called without requests
}

func (t *transactions) Try(requests []int) (int, error) {
	t.tried++
	t.empty = t.empty || len(requests) == 0
	if t.down > 0 && t.tried >= t.down {
		return 0, errStore
	}
	if t.most > 0 {
		requests = requests[:min(t.most, len(requests))]
	}
	for i, r := range requests {
		if t.poison[r] && t.blind {
			return len(requests), errPoison
		}
		if t.poison[r] {
			return i, errPoison
		}
	}
	return len(requests), nil
}

func (t *transactions) Common(err error) bool { return errors.Is(err, errStore) }

func (t *transactions) Answer(requests []int, err error) {
	t.empty = t.empty || len(requests) == 0
	for _, r := range requests {
		t.answered = append(t.answered, r)
		t.failed[r] = err
	}
}

// Each request is answered once, in order, and only requests that cannot be done fail. A
// known culprit costs three transactions; an unknown one is found by halving the batch.
func TestRun(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		n := 1 + random.IntN(64)
		tx := &transactions{poison: make(map[int]bool), blind: random.IntN(2) == 0, failed: make(map[int]error)}
		if random.IntN(3) == 0 {
			tx.most = 1 + random.IntN(8)
		}
		for range random.IntN(4) {
			tx.poison[random.IntN(n)] = true
		}
		requests := make([]int, n)
		for i := range requests {
			requests[i] = i
		}
		batch.Run(requests, tx)
		where := fmt.Sprintf("seed %d: %d requests, %+v", seed, n, tx)
		if !slices.Equal(tx.answered, requests) || tx.empty {
			t.Fatalf("%s: not each once and in order", where)
		}
		for r, err := range tx.failed {
			if (err != nil) != tx.poison[r] {
				t.Fatalf("%s: request %d ended with %v", where, r, err)
			}
		}
		most := 1 + 3*len(tx.poison)
		if tx.blind {
			most = 1 + 8*len(tx.poison) // 6 halves, it alone, the rest
		}
		if tx.most > 0 {
			most += n/tx.most + len(tx.poison)
		}
		if tx.tried > most {
			t.Fatalf("%s: %d transactions, expected %d at most", where, tx.tried, most)
		}
	}
}

// A failure that no request causes is not searched for among the requests, and affects
// one transaction only.
func TestRunOutage(t *testing.T) {
	t.Parallel()
	tx := &transactions{down: 1, failed: make(map[int]error)}
	batch.Run([]int{0, 1, 2, 3}, tx)
	if tx.tried != 1 || len(tx.answered) != 4 || !errors.Is(tx.failed[3], errStore) {
		t.Errorf("%+v", tx)
	}
	tx = &transactions{down: 3, poison: map[int]bool{2: true}, failed: make(map[int]error)}
	batch.Run([]int{0, 1, 2, 3}, tx) // fails, serves two, and then the store is away
	if tx.failed[1] != nil || !errors.Is(tx.failed[2], errStore) || !errors.Is(tx.failed[3], errStore) || tx.tried != 4 {
		t.Errorf("%+v", tx)
	}
}
