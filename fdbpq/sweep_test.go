package fdbpq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/fdbpq/recipe"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// An item that cannot be read any more does not keep the leases of all others
// from running out.
func TestSweepIgnoresDamagedTimers(t *testing.T) {
	t.Parallel()
	db, err := local.Open(t.TempDir(), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	clock := newTestClock()
	s, err := fdbpq.Open(t.Context(), db, clock.options(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{"damaged", "sound"} {
		push(t, s, queue, "a")
		update(t, s, func(tx kv.Tx) error {
			_, err := s.Queue(queue).Lease(tx, fdbpq.Selection{Limit: 1}, time.Minute)
			return err
		})
		clock.advance(time.Second)
	}
	update(t, s, func(tx kv.Tx) error {
		begin, end := tuple.Range(tuple.AppendString(tuple.AppendString(nil, "l"), "damaged"))
		rows, err := tx.Range(begin, end, kv.RangeOptions{Limit: 1})
		if err != nil || len(rows) != 1 {
			t.Fatalf("the leased item's row: %v, %v", rows, err)
		}
		tx.Set(rows[0].Key, []byte("rubbish"))
		return nil
	})
	clock.advance(time.Hour)
	if _, err := s.Sweep(t.Context()); err == nil {
		t.Error("the damage is not reported")
	}
	swept, err := s.Sweep(t.Context())
	if err != nil || swept.Timers != 1 {
		t.Fatalf("sweeping on: %+v, %v; want the other timer handled", swept, err)
	}
	if e := swept.Events; len(e) != 1 || e[0].Type != fdbpq.EventLeaseLost || e[0].Queue != "sound" {
		t.Errorf("events are %+v, want that the lease in queue sound was lost", e)
	}
}

// However many timers are damaged, others are found behind them, and a store that does not
// answer damages none.
func TestSweepPassesOverManyDamagedTimers(t *testing.T) {
	t.Parallel()
	base, err := local.Open(t.TempDir(), local.Options{NoSync: true, Now: stopped})
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	db, clock := &awayDB{DB: base}, newTestClock()
	s, err := fdbpq.Open(t.Context(), db, clock.options(0))
	if err != nil {
		t.Fatal(err)
	}
	const damaged = 300
	update(t, s, func(tx kv.Tx) error {
		for i := range damaged {
			tx.Set(tuple.AppendInt(tuple.AppendString(nil, "z"), int64(i)), nil)
		}
		return nil
	})
	push(t, s, "q", "a")
	update(t, s, func(tx kv.Tx) error {
		_, err := s.Queue("q").Lease(tx, fdbpq.Selection{Limit: 1}, time.Minute)
		return err
	})
	clock.advance(time.Hour)
	for range damaged {
		if _, err := s.Sweep(t.Context()); err == nil {
			t.Fatal("damage is not reported")
		}
	}
	db.away = true
	if _, err := s.Sweep(t.Context()); !errors.Is(err, kv.ErrUnavailable) {
		t.Errorf("a store that is away: %v", err)
	}
	db.away = false
	if swept, err := s.Sweep(t.Context()); err != nil || swept.Timers != 1 || len(swept.Events) != 1 {
		t.Errorf("behind %d damaged timers: %+v, %v; expected that the lease ends", damaged, swept, err)
	}
}

// awayDB cannot read leased items while it is away.
type awayDB struct {
	kv.DB
	away bool
}

type awayTx struct {
	kv.Tx
	db *awayDB
}

func (db *awayDB) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return db.DB.Update(ctx, func(tx kv.Tx) error { return fn(&awayTx{tx, db}) })
}

func (tx *awayTx) Get(key []byte) ([]byte, error) {
	if tx.db.away && bytes.HasPrefix(key, tuple.AppendString(nil, "l")) {
		return nil, kv.ErrUnavailable
	}
	return tx.Tx.Get(key)
}

// However often a configuration changes before a sweep, that goes through the keys of the queue once, and says of how many.
func TestSweepFindsKeysOnce(t *testing.T) {
	t.Parallel()
	const keys = 200
	clock := newTestClock()
	s := openLocal(t, clock.options(0))
	q := s.Queue("q")
	update(t, s, func(tx kv.Tx) error {
		var items []fdbpq.NewItem
		for i := range keys {
			items = append(items, fdbpq.NewItem{Key: fmt.Sprint(i)})
		}
		_, err := q.Push(tx, items...)
		return err
	})
	for i := range 10 {
		clock.advance(time.Millisecond)
		update(t, s, func(tx kv.Tx) error {
			return s.In(tx, func(w *fdbpq.Work) error {
				_, err := q.Within(w).Configure(tx, fmt.Appendf(nil, `{"key_limit":%d,"fair":%q}`, 1+i, []string{"priority", ""}[i%2]))
				if n := w.Found()["q"]; n == 0 || n >= keys {
					t.Errorf("a change of the configuration has written the rows of %d keys", n)
				}
				return err
			})
		})
	}
	clock.advance(time.Millisecond)
	found, timers := 0, 0
	for {
		swept, err := s.Sweep(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if swept.Timers == 0 {
			break
		}
		found, timers = found+swept.Found["q"], timers+swept.Timers
		clock.advance(time.Millisecond)
	}
	if found != keys || timers < 10 {
		t.Errorf("%d timers found %d keys, expected %d", timers, found, keys)
	}
}

// Due work is done within a second by one of the processes, also when the sweeping one
// dies.
func TestMaintainIsPunctual(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base, err := placeLocal(t)()
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		rng := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		happened := make(map[string]time.Time) // by id and type
		note := func(e fdbpq.Event) {
			mu.Lock()
			defer mu.Unlock()
			happened[fmt.Sprint(e.ID, e.Type)] = time.Now()
		}
		var running sync.WaitGroup
		var stops []context.CancelFunc
		var crashes []func()
		var stores []*fdbpq.Store
		for range 3 {
			db := fault.Wrap(base, fault.Options{})
			s, err := fdbpq.Open(t.Context(), db, fdbpq.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			running.Go(func() { s.Maintain(ctx, fdbpq.Maintenance{Event: note}) })
			stores, stops, crashes = append(stores, s), append(stops, stop), append(crashes, db.Crash)
		}
		s := stores[2]
		expected := make(map[string]time.Time)
		ready := make(map[string]time.Time) // when delayed items must be there, by payload
		var lock sync.Mutex
		arrived := make(map[string]time.Time)
		ctx, stop := context.WithCancel(t.Context())
		for range 4 {
			running.Go(func() {
				for ctx.Err() == nil {
					popped, err := recipe.New(s).Wait(ctx, "delayed", fdbpq.Selection{Limit: 1}, 0)
					if err != nil {
						return
					}
					lock.Lock()
					arrived[string(popped.Items[0].Payload)] = time.Now()
					lock.Unlock()
				}
			})
		}
		for n := range 300 {
			<-time.After(time.Duration(rng.Int64N(int64(100 * time.Millisecond))))
			if n == 150 {
				stops[0]()
				crashes[0]()
			}
			d := time.Duration(1 + rng.Int64N(int64(5*time.Second)))
			update(t, s, func(tx kv.Tx) error {
				switch n % 3 {
				case 0:
					payload := fmt.Sprint(n)
					ready[payload] = time.Now().Add(d)
					_, err := s.Queue("delayed").Push(tx, fdbpq.NewItem{Payload: []byte(payload), Delay: d})
					return err
				case 1:
					pushed, err := s.Queue("mortal").Push(tx, fdbpq.NewItem{TTL: d})
					if err != nil {
						return err
					}
					expected[fmt.Sprint(pushed[0].ID, fdbpq.EventExpired)] = time.Now().Add(d)
				case 2:
					if _, err := s.Queue("leased").Push(tx, fdbpq.NewItem{Priority: int64(n), HasPriority: true}); err != nil {
						return err
					}
					popped, err := s.Queue("leased").Lease(tx, fdbpq.Selection{End: fdbpq.Max, Limit: 1}, d)
					if err != nil {
						return err
					}
					expected[fmt.Sprint(popped.Items[0].ID, fdbpq.EventLeaseLost)] = popped.Items[0].Lease.Expires
				}
				return nil
			})
		}
		<-time.After(10 * time.Second)
		stop()
		for _, stop := range stops {
			stop()
		}
		running.Wait()
		var late []time.Duration
		check := func(what string, due, done time.Time) {
			if done.IsZero() {
				t.Errorf("%s never happened", what)
				return
			}
			if done.Before(due) {
				t.Errorf("%s happened %v too early", what, due.Sub(done))
			}
			late = append(late, done.Sub(due))
		}
		for what, due := range expected {
			check(what, due, happened[what])
		}
		for what, due := range ready {
			check("delayed item "+what, due, arrived[what])
		}
		slices.Sort(late)
		t.Logf("late by %v at the median, %v at most", late[len(late)/2], late[len(late)-1])
		// When a process dies, the next one waits for two more seconds.
		if late[len(late)*9/10] > time.Second || late[len(late)-1] > 4*time.Second {
			t.Errorf("late by %v in one of ten cases, %v at most", late[len(late)*9/10], late[len(late)-1])
		}
	})
}

// A process does due work of its own timers in time, and not only at its next heartbeat.
func TestMaintainHearsOfTimers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base, err := placeLocal(t)()
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		s, err := fdbpq.Open(t.Context(), base, fdbpq.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Maintain(ctx, fdbpq.Maintenance{}) })
		for range 10 {
			<-time.After(1234 * time.Millisecond)
			start := time.Now()
			for queue, delay := range map[string]time.Duration{"later": 100 * time.Millisecond, "q": 50 * time.Millisecond} {
				update(t, s, func(tx kv.Tx) error {
					_, err := s.Queue(queue).Push(tx, fdbpq.NewItem{Delay: delay})
					return err
				})
			}
			if _, err := recipe.New(s).Wait(t.Context(), "q", oneItem, 0); err != nil {
				t.Fatal(err)
			}
			if late := time.Since(start) - 50*time.Millisecond; late < 0 || late > 10*time.Millisecond {
				t.Errorf("it came %v late", late)
			}
		}
		stop()
		running.Wait()
	})
}

// A process forgets results when their timer is due, and not only at its next heartbeat: one of those before has found the timer.
func TestMaintainHearsOfResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base, err := placeLocal(t)()
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		s, err := fdbpq.Open(t.Context(), base, fdbpq.Options{})
		if err != nil {
			t.Fatal(err)
		}
		until := func(at int64) {
			t.Helper()
			now, err := s.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Duration(at - now))
		}
		now, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// Timers of results are due at full seconds, and heartbeats are between them.
		until((now/int64(time.Second)+1)*int64(time.Second) + int64(time.Second)/3)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Maintain(ctx, fdbpq.Maintenance{}) })
		<-time.After(3 * time.Second)
		update(t, s, func(tx kv.Tx) error {
			_, err := s.Queue("q").Push(tx, fdbpq.NewItem{ResultTTL: time.Minute})
			return err
		})
		update(t, s, func(tx kv.Tx) error {
			_, err := s.Queue("q").Pop(tx, fdbpq.Selection{Limit: 1})
			return err
		})
		m := maintained{base: &slowDB{DB: base}}
		due := m.timer(t)
		if due%int64(time.Second) != 0 {
			t.Fatalf("the timer is due at %d", due)
		}
		until(due - int64(10*time.Millisecond))
		if n := m.rows(t, "re", ""); n != 1 {
			t.Errorf("before the timer is due there are %d results", n)
		}
		until(due + int64(10*time.Millisecond))
		if n := m.rows(t, "re", ""); n != 0 {
			t.Errorf("after the timer was due there are %d results", n)
		}
		stop()
		running.Wait()
	})
}

// timer is when the only timer is due.
func (m *maintained) timer(t *testing.T) (due int64) {
	t.Helper()
	if err := m.base.View(t.Context(), func(r kv.Reader) error {
		begin, end := tuple.Range(tuple.AppendString(nil, "z"))
		rows, err := r.Range(begin, end, kv.RangeOptions{Limit: 2})
		if err != nil || len(rows) != 1 {
			return fmt.Errorf("%d timers: %w", len(rows), err)
		}
		timer, err := layout.ParseTimer(rows[0].Key)
		due = timer.Due
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return due
}

// maintained is a store in virtual time that Maintain works on.
type maintained struct {
	*fdbpq.Store
	base     *slowDB
	clock    *testClock
	alive    atomic.Int64
	problems chan error
	events   chan fdbpq.Event
	stop     func() // returns when Maintain has
}

// slowDB is a store whose transactions take time.
type slowDB struct {
	kv.DB
	hangs atomic.Bool  // they last until their context ends
	takes atomic.Int64 // how long they take by the clock
	lasts atomic.Int64 // how long they last
	clock *testClock
}

func (db *slowDB) Update(ctx context.Context, fn func(kv.Tx) error) error {
	db.clock.advance(time.Duration(db.takes.Load()))
	if lasts := time.Duration(db.lasts.Load()); lasts > 0 {
		<-time.After(lasts)
	}
	if db.hangs.Load() {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", kv.ErrUnavailable, ctx.Err())
	}
	return db.DB.Update(ctx, fn)
}

func maintain(t *testing.T) *maintained {
	t.Helper()
	base, err := placeLocal(t)()
	if err != nil {
		t.Fatal(err)
	}
	clock := newTestClock()
	m := &maintained{
		base: &slowDB{DB: base, clock: clock}, clock: clock,
		problems: make(chan error, 100), events: make(chan fdbpq.Event, 100),
	}
	if m.Store, err = fdbpq.Open(t.Context(), m.base, clock.options(0)); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *maintained) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		m.Maintain(ctx, fdbpq.Maintenance{
			Event:   func(e fdbpq.Event) { m.events <- e },
			Problem: func(err error) { m.problems <- err },
			Alive:   func() { m.alive.Add(1) },
		})
	})
	m.stop = func() {
		cancel()
		running.Wait()
		if err := m.base.Close(); err != nil {
			t.Error(err)
		}
	}
}

// rows counts the rows of a space whose keys have a part.
func (m *maintained) rows(t *testing.T, space, part string) (n int) {
	t.Helper()
	err := m.base.View(t.Context(), func(r kv.Reader) error {
		begin, end := tuple.Range(tuple.AppendString(nil, space))
		rows, err := r.Range(begin, end, kv.RangeOptions{Limit: 10_000})
		for _, row := range rows {
			if strings.Contains(string(row.Key), part) {
				n++
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A store that does not answer is reported after a while, and no longer counts as alive; the
// end of Maintain is no problem.
func TestMaintainReportsAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := maintain(t)
		m.start(t)
		<-time.After(2500 * time.Millisecond)
		if n := m.alive.Load(); n != 3 || len(m.problems) > 0 {
			t.Errorf("alive %d times in the first seconds, %d problems; expected 3 and none", n, len(m.problems))
		}
		m.base.hangs.Store(true)
		<-time.After(time.Minute)
		if n := m.alive.Load(); n != 3 {
			t.Errorf("alive %d times while the store does not answer", n-3)
		}
		if n := len(m.problems); n < 5 || n > 20 {
			t.Errorf("%d problems in a minute without an answer, expected one in five seconds", n)
		}
		for len(m.problems) > 0 {
			if err := <-m.problems; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the problem is %v", err)
			}
		}
		m.stop()
		if len(m.problems) > 0 {
			t.Errorf("the end is a problem: %v", <-m.problems)
		}
	})
}

// Timers do not wait until all garbage is cleared: it is cleared a little at a time.
func TestMaintainClearsGarbageInRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := maintain(t)
		for n := range 10 {
			push(t, m.Store, fmt.Sprint(n), "one")
			update(t, m.Store, func(tx kv.Tx) error {
				_, err := m.Queue(fmt.Sprint(n)).Purge(tx)
				return err
			})
		}
		m.base.takes.Store(int64(100 * time.Millisecond))
		m.start(t)
		synctest.Wait()
		if n := m.rows(t, "g", ""); n < 7 || n == 10 {
			t.Errorf("after the first round of 200ms, with 100ms for a transaction, %d generations of 10 are left", n)
		}
		<-time.After(20 * time.Second)
		if n := m.rows(t, "g", ""); n > 0 {
			t.Errorf("%d generations are left in the end", n)
		}
		m.stop()
	})
}

// The sessions of dead processes are looked for every ten minutes, however many there are;
// those of which there is only a session get an hour from then on.
func TestMaintainRetiresSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := maintain(t)
		const dying = "dying process"
		dead := func(n int) {
			t.Helper()
			update(t, m.Store, func(tx kv.Tx) error {
				for i := range n {
					process := tuple.AppendBytes(tuple.AppendString(nil, "n"), fmt.Appendf(nil, "%s %08d", dying, i))
					tx.Set(tuple.AppendInt(process, 3), kv.EncodeInteger(1))
				}
				return nil
			})
		}
		m.start(t)
		expect := func(what string, want func(int) bool) {
			t.Helper()
			<-time.After(2 * time.Second)
			if n := m.rows(t, "n", dying); !want(n) {
				t.Errorf("%s: %d rows of dead processes", what, n)
			}
		}
		const many = 1100 // more than one transaction looks at
		dead(many)
		expect("at first", func(n int) bool { return n == many })
		m.clock.advance(10 * time.Minute)
		expect("after ten minutes each process counts as alive", func(n int) bool { return n == 2*many })
		m.clock.advance(59 * time.Minute)
		expect("within an hour", func(n int) bool { return n == 2*many })
		m.clock.advance(10 * time.Minute)
		expect("after an hour", func(n int) bool { return n == 0 })
		dead(1)
		expect("before the next ten minutes are over", func(n int) bool { return n == 1 })
		m.stop()
	})
}

// Damage is reported once, and other timers are not held up by it.
func TestMaintainPassesOverDamage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := maintain(t)
		for _, queue := range []string{"damaged", "sound"} {
			push(t, m.Store, queue, "a")
			update(t, m.Store, func(tx kv.Tx) error {
				_, err := m.Queue(queue).Lease(tx, fdbpq.Selection{Limit: 1}, time.Minute)
				return err
			})
			m.clock.advance(time.Second)
		}
		update(t, m.Store, func(tx kv.Tx) error {
			begin, end := tuple.Range(tuple.AppendString(tuple.AppendString(nil, "l"), "damaged"))
			rows, err := tx.Range(begin, end, kv.RangeOptions{Limit: 1})
			if err != nil || len(rows) != 1 {
				t.Fatalf("the leased item's row: %v, %v", rows, err)
			}
			tx.Set(rows[0].Key, []byte("rubbish"))
			return nil
		})
		m.clock.advance(time.Hour)
		m.start(t)
		<-time.After(time.Millisecond)
		if len(m.problems) != 1 || len(m.events) != 1 {
			t.Errorf("%d problems and %d events, expected one of each", len(m.problems), len(m.events))
		}
		m.stop()
	})
}

// Store time is written every second, however many timers are due: another process that sees
// no heartbeat takes the store for one that nobody works on, and adds downtime.
func TestMaintainBeatsWhileItSweeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := maintain(t)
		const timers = 3000
		items := make([]fdbpq.NewItem, timers)
		for i := range items {
			items[i].Delay = time.Second
		}
		update(t, m.Store, func(tx kv.Tx) error {
			_, err := m.Queue("q").Push(tx, items...)
			return err
		})
		m.clock.advance(time.Second)
		m.base.lasts.Store(int64(400 * time.Millisecond))
		m.start(t)
		<-time.After(3900 * time.Millisecond)
		if n := m.alive.Load(); n < 3 {
			t.Errorf("%d heartbeats in the first four seconds, expected one a second", n)
		}
		if n := m.rows(t, "z", ""); n == 0 || n == timers {
			t.Errorf("%d timers of %d are left: the test proves nothing", n, timers)
		}
		<-time.After(time.Minute)
		if n := m.rows(t, "z", ""); n > 0 || len(m.problems) > 0 {
			t.Errorf("%d timers are left a minute later, with %d problems", n, len(m.problems))
		}
		m.stop()
	})
}

// Timers that one transaction leaves are worked on at once, and not at the next heartbeat.
func TestMaintainSweepsOnAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := maintain(t)
		items := make([]fdbpq.NewItem, 1000)
		for i := range items {
			items[i].Delay = time.Second
		}
		update(t, m.Store, func(tx kv.Tx) error {
			_, err := m.Queue("q").Push(tx, items...)
			return err
		})
		m.clock.advance(time.Second)
		m.start(t)
		<-time.After(100 * time.Millisecond)
		if n := m.rows(t, "z", ""); n > 0 {
			t.Errorf("%d timers of %d are left", n, len(items))
		}
		m.stop()
	})
}
