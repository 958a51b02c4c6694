package fdbpq_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/recipe"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

var flagContention = flag.Int("pq.contention", 0, "items that poppers contend for in each measurement of TestContention; 0: none")

// contenders are the ways to pop that are compared.
var contenders = []struct {
	name string
	pop  func(ctx context.Context, s *fdbpq.Store) (fdbpq.Popped, error)
}{
	{"recipe's plain pop", func(ctx context.Context, s *fdbpq.Store) (fdbpq.Popped, error) {
		return inSession(ctx, s, func(tx kv.Tx, sel fdbpq.Selection) (fdbpq.Popped, error) { return recipe.Plain(s.Queue("q"), tx, sel) })
	}},
	{"Pop", func(ctx context.Context, s *fdbpq.Store) (fdbpq.Popped, error) {
		return inSession(ctx, s, s.Queue("q").Pop)
	}},
	{"staged pop", func(ctx context.Context, s *fdbpq.Store) (fdbpq.Popped, error) {
		return recipe.New(s).Staged(ctx, "q", oneItem, 0)
	}},
}

func inSession(ctx context.Context, s *fdbpq.Store, pop func(kv.Tx, fdbpq.Selection) (fdbpq.Popped, error)) (popped fdbpq.Popped, err error) {
	session := s.Session()
	defer session.Release()
	err = session.Update(ctx, func(tx kv.Tx) (err error) {
		popped, err = pop(tx, oneItem)
		return err
	})
	return popped, err
}

// TestContention measures poppers of as many processes at the head of one queue, while
// another process pushes: how many they pop in a second, how often a transaction had to
// run again, and how long the slowest pop took. The same run checks that no item is lost,
// delivered twice or passed over. It is a measurement, made with -pq.contention=4000 on
// an idle machine.
//
// Commits of the embedded engine need hardly any time, so its poppers hardly
// meet. They are made to: each commit waits for a moment, as one that crosses a
// network does.
func TestContention(t *testing.T) {
	t.Parallel()
	if *flagContention == 0 {
		t.Skip("no -pq.contention")
	}
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		base := open()
		defer base.Close()
		const rounds = 3
		t.Logf("| poppers | | pops/s | conflicts/pop | slowest pop |")
		for _, poppers := range []int{1, 8, 64} {
			results := make([][]contention, len(contenders))
			for range rounds {
				for i := range contenders {
					results[i] = append(results[i], contend(t, base, poppers, contenders[i].pop))
				}
			}
			for i := range contenders {
				r := middle(results[i])
				t.Logf("| %d | %s | %.0f | %.2f | %v |", poppers, contenders[i].name, r.rate, r.conflicts, r.slowest.Round(time.Millisecond))
			}
		}
	})
}

// contention is one measurement.
type contention struct {
	rate, conflicts float64
	slowest         time.Duration
}

// middle is the measurement with the median of the rates.
func middle(results []contention) contention {
	slices.SortFunc(results, func(a, b contention) int { return int(a.rate - b.rate) })
	return results[len(results)/2]
}

// contendFor is how long a measurement takes at most.
const contendFor = 4 * time.Second

func contend(t *testing.T, base kv.DB, poppers int, pop func(context.Context, *fdbpq.Store) (fdbpq.Popped, error)) contention {
	clear := func(tx kv.Tx) error {
		tx.ClearRange([]byte{}, []byte{0xff})
		return nil
	}
	if err := base.Update(t.Context(), clear); err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, clock: newTestClock(), pushes: make(map[string]*life)}
	hook := func(context.Context, fault.Point) {}
	if strings.HasSuffix(t.Name(), "/local") {
		hook = func(_ context.Context, at fault.Point) {
			if at == fault.BeforeCommit {
				<-time.After(time.Millisecond)
			}
		}
	}
	process := func(hook func(context.Context, fault.Point)) (*fdbpq.Store, *fault.DB) {
		db := fault.Wrap(base, fault.Options{Hook: hook})
		s, err := fdbpq.Open(t.Context(), db, fdbpq.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s, db
	}
	pusher, _ := process(nil)
	for n := 0; n < *flagContention; n += 100 {
		c.preload(pusher, rand.New(rand.NewPCG(1, uint64(n))), 100)
	}
	stores, dbs := make([]*fdbpq.Store, poppers), make([]*fault.DB, poppers)
	for i := range stores {
		stores[i], dbs[i] = process(hook)
	}

	start := time.Now()
	var over atomic.Bool
	var slowest atomic.Int64
	var popped atomic.Int64
	var working, pushing sync.WaitGroup
	pushing.Go(func() {
		rng := rand.New(rand.NewPCG(2, 3))
		for n := 0; !over.Load(); n++ {
			c.pushing.Add(1)
			if err := c.push(n, pusher, rng, 1); err != nil {
				t.Error(err)
				return
			}
			<-time.After(5 * time.Millisecond)
		}
	})
	for _, s := range stores {
		working.Go(func() {
			for popped.Load() < int64(*flagContention) && time.Since(start) < contendFor {
				at, began := span{call: c.stamp()}, time.Now()
				got, err := pop(t.Context(), s)
				at.ret = c.stamp()
				if err != nil {
					t.Error(err)
					return
				}
				took := int64(time.Since(began))
				for before := slowest.Load(); took > before && !slowest.CompareAndSwap(before, took); before = slowest.Load() {
				}
				popped.Add(int64(len(got.Items)))
				c.note(got, fdbpq.Selection{End: fdbpq.Min, Band: &fdbpq.AllPriorities}, at)
			}
		})
	}
	working.Wait()
	passed := time.Since(start)
	over.Store(true)
	pushing.Wait()
	reruns := 0
	for _, db := range dbs {
		reruns += db.Stats().Reruns
	}
	c.checkContention(pusher)
	n := float64(popped.Load())
	return contention{rate: n / passed.Seconds(), conflicts: float64(reruns) / n, slowest: time.Duration(slowest.Load())}
}

// checkContention pops the remaining items, and looks for items that were lost, delivered
// twice or passed over.
func (c *crowd) checkContention(s *fdbpq.Store) {
	for {
		var popped fdbpq.Popped
		at, err := c.do(s, func(tx kv.Tx) (err error) {
			popped, err = s.Queue("q").Pop(tx, fdbpq.Selection{Limit: 100})
			return err
		})
		if err != nil {
			c.t.Fatal(err)
		}
		if len(popped.Items) == 0 {
			break
		}
		c.note(popped, fdbpq.Selection{End: fdbpq.Min, Band: &fdbpq.AllPriorities}, at)
	}
	all := make([]*life, 0, len(c.pushes))
	for id, l := range c.pushes {
		all = append(all, l)
		if len(l.ended) != 1 || l.pushed.ret == 0 {
			c.t.Errorf("item %s was handed out %d times, pushed %+v", id, len(l.ended), l.pushed)
		}
	}
	for _, l := range all {
		for i, p := range l.taken {
			c.checkOrder(all, l, i, p)
		}
	}
	problems, err := s.Check(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, problem := range problems {
		c.t.Error(problem)
	}
}

// preload pushes items in one transaction.
func (c *crowd) preload(s *fdbpq.Store, rng *rand.Rand, items int) {
	batch := make([]fdbpq.NewItem, items)
	for i := range batch {
		batch[i] = fdbpq.NewItem{Priority: rng.Int64N(4), HasPriority: true}
	}
	var pushed []fdbpq.Pushed
	at, err := c.do(s, func(tx kv.Tx) (err error) {
		pushed, err = s.Queue("q").Push(tx, batch...)
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, p := range pushed {
		c.life(p.ID).pushed = at
	}
}
