package fdbpq_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/recipe"
	"github.com/pqbridge/pqbridge/internal/storecheck"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// crowd is many goroutines in several processes that use one queue, each
// noting what it did and when.
type crowd struct {
	t         testing.TB
	clock     *testClock
	staging   bool     // pops by the recipe in stages; then no worker dies and no time passes, so that no lease runs out unseen
	keys      []string // of the items, which go one after another; then all pops lease
	processes []*fdbpq.Store
	stamps    atomic.Int64 // orders calls and returns
	pushing   atomic.Int64 // pushers still at work

	mu     sync.Mutex
	pushes map[string]*life // by id
}

// span is the time from a call to its answer.
type span struct{ call, ret int64 }

// life is the known history of an item.
type life struct {
	place  modelItem
	key    string
	pusher int
	pushed span
	taken  []possession
	ended  []string // how, each time an answer said that the item is gone
}

// possession is one delivery of the item.
type possession struct {
	span
	end      fdbpq.End
	band     fdbpq.Band
	fence    int64 // 0: taken for good
	expires  time.Time
	now      time.Time // by the clock that all share, when it was answered
	returned bool      // the worker gave it back in time
	settled  bool      // it did, or it said that the item is done
	keyFence int64
}

func (c *crowd) stamp() int64 { return c.stamps.Add(1) }

// do runs a transaction until its result is known.
func (c *crowd) do(s *fdbpq.Store, fn func(kv.Tx) error) (span, error) {
	session := s.Session()
	defer session.Release()
	at := span{call: c.stamp()}
	err := session.Update(c.t.Context(), fn)
	for errors.Is(err, kv.ErrUnavailable) {
		err = session.Update(c.t.Context(), fn)
	}
	at.ret = c.stamp()
	return at, err
}

func (c *crowd) push(pusher int, s *fdbpq.Store, rng *rand.Rand, items int) error {
	defer c.pushing.Add(-1)
	for n := range items {
		batch := make([]fdbpq.NewItem, 1+rng.IntN(2))
		for i := range batch {
			batch[i] = fdbpq.NewItem{
				Payload: fmt.Appendf(nil, "%d/%d/%d", pusher, n, i), Priority: rng.Int64N(4), HasPriority: true,
				MsgID: fmt.Sprintf("%d/%d/%d", pusher, n, i),
			}
			if c.keys != nil {
				batch[i].Key = pick(rng, c.keys...)
			}
		}
		var pushed []fdbpq.Pushed
		at, err := c.do(s, func(tx kv.Tx) (err error) {
			pushed, err = s.Queue("q").Push(tx, batch...)
			return err
		})
		if err != nil {
			return err
		}
		c.mu.Lock()
		for i, p := range pushed {
			if p.Err != nil || p.Duplicate {
				c.t.Errorf("push: %+v", p)
			}
			l := c.life(p.ID)
			l.pusher, l.pushed, l.key = pusher, at, batch[i].Key
		}
		c.mu.Unlock()
	}
	return nil
}

// life is called with the lock held. A pop may return an item before its push has
// returned.
func (c *crowd) life(id fdbpq.ID) *life {
	l := c.pushes[id.String()]
	if l == nil {
		l = &life{place: placeOf(id.String())}
		c.pushes[id.String()] = l
	}
	return l
}

// over reports whether there is nothing left and nothing to come.
func (c *crowd) over(popped fdbpq.Popped) bool {
	return popped.Reason == fdbpq.ReasonEmpty && c.pushing.Load() == 0
}

func (c *crowd) selection(rng *rand.Rand) fdbpq.Selection {
	if c.keys != nil {
		return fdbpq.Selection{End: fdbpq.Min, Limit: 1 + rng.IntN(3), Band: &fdbpq.AllPriorities}
	}
	sel := fdbpq.Selection{End: pick(rng, fdbpq.Min, fdbpq.Min, fdbpq.Max), Limit: 1 + rng.IntN(3), Band: &fdbpq.Band{Low: -1, High: 9}}
	if rng.IntN(6) == 0 {
		sel.Band = &fdbpq.Band{Low: 1, High: 2}
	}
	return sel
}

// pop pops plainly, or leases and then works like a worker.
func (c *crowd) pop(s *fdbpq.Store, rng *rand.Rand, lease bool) error {
	for {
		sel := c.selection(rng)
		before := c.pushing.Load()
		var popped fdbpq.Popped
		var err error
		at := span{call: c.stamp()}
		d := time.Duration(0)
		if lease {
			d = 20 * time.Second
		}
		if c.staging && rng.IntN(2) == 0 {
			popped, err = recipe.New(s).Staged(c.t.Context(), "q", sel, d)
			at.ret = c.stamp()
		} else {
			at, err = c.do(s, func(tx kv.Tx) (err error) {
				if lease {
					popped, err = s.Queue("q").Lease(tx, sel, d)
				} else {
					popped, err = s.Queue("q").Pop(tx, sel)
				}
				return err
			})
		}
		if err != nil {
			return err
		}
		c.note(popped, sel, at)
		for _, item := range popped.Items {
			if lease {
				if err := c.work(s, rng, item); err != nil {
					return err
				}
			}
		}
		if len(popped.Items) == 0 && before == 0 && c.over(popped) {
			return nil
		}
	}
}

func (c *crowd) note(popped fdbpq.Popped, sel fdbpq.Selection, at span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, item := range popped.Items {
		l := c.life(item.ID)
		p := possession{span: at, end: sel.End, band: *sel.Band, now: c.clock.options(0).Wall()}
		if item.Lease == nil {
			l.ended = append(l.ended, "taken for good")
		} else {
			p.fence, p.expires, p.keyFence = item.Lease.Fence, item.Lease.Expires, item.Lease.KeyFence
		}
		l.taken = append(l.taken, p)
	}
}

// work settles a lease in one of the ways workers do, or dies and leaves it.
func (c *crowd) work(s *fdbpq.Store, rng *rand.Rand, item fdbpq.Item) error {
	q, l := s.Queue("q"), *item.Lease
	var settle func(kv.Tx) (fdbpq.Settled, error)
	end, returned := "", false
	dice := rng.IntN(6)
	if c.staging {
		dice = 1 + rng.IntN(2)*3
	}
	switch dice {
	case 0:
		return nil // dead
	case 1:
		returned = true
		settle = func(tx kv.Tx) (fdbpq.Settled, error) { return q.Nack(tx, l, fdbpq.Nack{}) }
	case 2:
		returned = true
		settle = func(tx kv.Tx) (fdbpq.Settled, error) { return q.Return(tx, l) }
	case 3:
		c.clock.advance(21 * time.Second) // too late, unless the item was not popped since
		fallthrough
	default:
		end = "acknowledged"
		settle = func(tx kv.Tx) (fdbpq.Settled, error) { return q.Ack(tx, l) }
	}
	// Noted before, because another worker may get it, or the next one of its key, at once.
	c.mark(item, func(_ *life, p *possession) { p.returned, p.settled = returned, true })
	_, err := c.do(s, func(tx kv.Tx) error {
		_, err := settle(tx)
		return err
	})
	var lost *fdbpq.LostError
	if errors.As(err, &lost) {
		return nil
	}
	if end != "" && err == nil {
		c.mark(item, func(l *life, _ *possession) { l.ended = append(l.ended, end) })
	}
	return err
}

func (c *crowd) mark(item fdbpq.Item, how func(*life, *possession)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.life(item.ID)
	i := slices.IndexFunc(l.taken, func(p possession) bool { return p.fence == item.Lease.Fence })
	how(l, &l.taken[i])
}

// keep beats and sweeps, and lets time pass, until ctx ends.
func (c *crowd) keep(ctx context.Context, s *fdbpq.Store) error {
	pulse := fdbpq.NewHeartbeat(s)
	for ctx.Err() == nil {
		if !c.staging {
			c.clock.advance(300 * time.Millisecond)
		}
		if err := pulse.Beat(c.t.Context()); err != nil && !errors.Is(err, kv.ErrUnavailable) {
			return err
		}
		if _, err := s.Sweep(c.t.Context()); err != nil && !errors.Is(err, kv.ErrUnavailable) {
			return err
		}
	}
	return nil
}

// Producers, consumers, workers that die, and sweepers, in several processes and under
// all faults at once: no item is lost or delivered twice, leases do not overlap, and
// ready items are not passed over.
//
// Where items have keys that go one after another, leases of a key do not overlap, and an
// item that was leased comes again before others of its key.
func TestCrowd(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string][]string{"staging false": nil, "staging true": nil, "keys": {"a", "b", "c", "d", "e"}} {
		t.Run(name, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				base := open()
				defer base.Close()
				c := &crowd{t: t, clock: newTestClock(), staging: name == "staging true", keys: keys, pushes: make(map[string]*life)}
				c.run(base, randomSeed(t))
				c.check()
			})
		})
	}
}

func (c *crowd) run(base kv.DB, seed uint64) {
	t := c.t
	var wrapped []*fault.DB
	for i := range 3 {
		db := fault.Wrap(base, fault.Options{Seed: seed + uint64(i), Yield: true})
		s, err := fdbpq.Open(t.Context(), db, c.clock.options(0))
		if err != nil {
			t.Fatal(err)
		}
		chances := fault.Chances{fault.Conflict: 0.05, fault.UnknownNever: 0.02, fault.UnknownDone: 0.02, fault.UnknownLate: 0.02}
		if !c.staging { // a request given up may still be answered
			chances[fault.Unavailable] = 0.01
		}
		db.SetChances(chances)
		wrapped = append(wrapped, db)
		c.processes = append(c.processes, s)
	}
	if _, err := c.do(c.processes[0], func(tx kv.Tx) error {
		_, err := c.processes[0].Queue("q").Configure(tx, fmt.Appendf(nil, `{"max_deliveries":0,"key_order":%t}`, c.keys != nil))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	const pushers, items = 4, 60
	c.pushing.Store(pushers)
	var workers, keepers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	start := func(wg *sync.WaitGroup, n uint64, fn func(*fdbpq.Store, *rand.Rand) error) {
		s := c.processes[n%uint64(len(c.processes))]
		wg.Go(func() {
			if err := fn(s, rand.New(rand.NewPCG(seed, n))); err != nil {
				t.Errorf("goroutine %d: %v", n, err)
			}
		})
	}
	for n := range uint64(pushers) {
		start(&workers, n, func(s *fdbpq.Store, rng *rand.Rand) error { return c.push(int(n), s, rng, items) })
	}
	for n := range uint64(6) {
		start(&workers, 10+n, func(s *fdbpq.Store, rng *rand.Rand) error { return c.pop(s, rng, n%3 != 0 || c.keys != nil) })
	}
	for n := range uint64(3) {
		start(&keepers, 20+n, func(s *fdbpq.Store, _ *rand.Rand) error { return c.keep(ctx, s) })
	}
	workers.Wait()
	stop()
	keepers.Wait()
	for _, db := range wrapped {
		db.SetChances(nil)
		db.Release()
	}
	problems, err := storecheck.Check(t.Context(), c.processes[0])
	if err != nil {
		t.Error(err)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
}

// check looks for violations.
func (c *crowd) check() {
	all := make([]*life, 0, len(c.pushes))
	redelivered := 0
	for id, l := range c.pushes {
		all = append(all, l)
		if len(l.ended) != 1 {
			c.t.Errorf("item %s ended %d times: %q", id, len(l.ended), l.ended)
		}
		if l.pushed.ret == 0 {
			c.t.Errorf("item %s was never pushed", id)
		}
		if len(l.taken) > 1 {
			redelivered++
		}
		c.checkLeases(id, l)
	}
	c.checkPushers(all)
	for _, key := range c.keys {
		c.checkKey(all, key)
	}
	compared := 0
	for _, l := range all {
		for i, p := range l.taken {
			compared += c.checkOrder(all, l, i, p)
		}
	}
	c.t.Logf("%d items, %d of them handed out again, %d pairs compared", len(all), redelivered, compared)
	if redelivered == 0 || compared < len(all) {
		c.t.Error("the test proves little")
	}
}

// checkLeases: the fences of an item grow, and its leases do not overlap.
func (c *crowd) checkLeases(id string, l *life) {
	leases := l.taken // in the order of the notes: a worker may note its lease when it has run out
	slices.SortFunc(leases, func(a, b possession) int {
		if a.fence == 0 || b.fence == 0 {
			return int(b.fence - a.fence) // a pop for good comes last
		}
		return int(a.fence - b.fence)
	})
	for i, p := range leases[:max(0, len(leases)-1)] {
		next := leases[i+1]
		if next.fence == p.fence {
			c.t.Errorf("item %s: two leases have fence %d", id, p.fence)
		}
		if next.ret < p.call {
			c.t.Errorf("item %s: fence %d was answered before fence %d was asked for", id, next.fence, p.fence)
		}
		if !p.returned && next.now.Before(p.expires) {
			c.t.Errorf("item %s: handed out at %v, while a lease was valid until %v", id, next.now, p.expires)
		}
	}
}

// checkPushers: what one pusher pushes one after another keeps that order.
func (c *crowd) checkPushers(all []*life) {
	slices.SortFunc(all, func(a, b *life) int { return int(a.pushed.call - b.pushed.call) })
	last := make(map[int]*life)
	for _, l := range all {
		if before := last[l.pusher]; before != nil && before.pushed != l.pushed && before.place.seq >= l.place.seq {
			c.t.Errorf("pusher %d: place %d was given after place %d", l.pusher, l.place.seq, before.place.seq)
		}
		last[l.pusher] = l
	}
}

// checkOrder: while an item was being popped, no item before it was ready all the time.
func (c *crowd) checkOrder(all []*life, l *life, i int, p possession) (compared int) {
	for _, other := range all {
		in := other.place.priority >= p.band.Low && other.place.priority <= p.band.High
		if other == l || !in || other.pushed.ret > p.call {
			continue
		}
		if c.keys != nil && (other.key != l.key || i > 0) {
			continue // it may wait for others of its key, or the item that was popped came again
		}
		if slices.ContainsFunc(other.taken, func(o possession) bool { return o.call < p.ret }) {
			continue // it may have been away
		}
		compared++
		order := compareItems(&other.place, &l.place)
		if p.end == fdbpq.Max {
			order = -order
		}
		if order < 0 {
			c.t.Errorf("pop %d of %+v passed over %+v, which was ready", i, l.place, other.place)
		}
	}
	return compared
}

// checkKey: items of a key are leased one after another, in the order of the fences of the
// key, and each until it is done.
func (c *crowd) checkKey(all []*life, key string) {
	type turn struct {
		*life
		possession
	}
	var turns []turn
	for _, l := range all {
		for _, p := range l.taken {
			if l.key == key {
				turns = append(turns, turn{l, p})
			}
		}
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Compare(a.keyFence, b.keyFence) })
	done := make(map[*life]bool)
	for i, t := range turns {
		if done[t.life] {
			c.t.Errorf("key %s: %+v was leased again after others", key, t.life.place)
		}
		if i+1 == len(turns) {
			return
		}
		next := turns[i+1]
		done[t.life] = next.life != t.life
		switch {
		case next.keyFence == t.keyFence:
			c.t.Errorf("key %s: two leases have fence %d", key, t.keyFence)
		case next.ret < t.call:
			c.t.Errorf("key %s: fence %d was answered before fence %d was asked for", key, next.keyFence, t.keyFence)
		case !t.settled && next.now.Before(t.expires):
			c.t.Errorf("key %s: handed out at %v, while a lease was valid until %v", key, next.now, t.expires)
		}
	}
}
