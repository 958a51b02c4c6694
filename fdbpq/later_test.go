package fdbpq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/storecheck"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// serveLater gives the state of a queue the format of a later program, until it is called again.
func (f *fixture) serveLater(queue string) (end func()) {
	f.Helper()
	var row kv.Pair
	for _, r := range f.rows("q") {
		if bytes.HasSuffix(r.Key, []byte("\x02"+queue+"\x00")) {
			row = r
		}
	}
	format, rest, err := tuple.ConsumeInt(row.Value)
	if err != nil || format > fdbpq.StateNewest {
		f.Fatalf("the state of %s: format %d, %v", queue, format, err)
	}
	load(f.TB, f.base, []kv.Pair{{Key: row.Key, Value: append(tuple.AppendInt(nil, fdbpq.StateNewest+1), rest...)}})
	return func() { load(f.TB, f.base, []kv.Pair{row}) }
}

// due returns the timers that are due, by their queues.
func (f *fixture) due() map[string]int {
	f.Helper()
	due := make(map[string]int)
	for _, row := range f.rows("z") {
		r := tuple.Read(row.Key[len(tuple.AppendString(nil, "z")):])
		if at, _, queue := r.Int(), r.Text(), r.Text(); at <= f.now() {
			due[queue]++
		}
	}
	return due
}

// A long work goes on in the next sweep also where the sweep that sets its next timer goes on to timers behind those of a queue
// that a later program serves.
func TestLongWorkBesideALaterProgram(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.fill("own", 600, fdbpq.NewItem{ResultTTL: time.Minute})
		f.pop("own", fdbpq.Min, 600)
		f.configure("own", `{"priority":3}`)
		f.pushed("later", 1, "a")
		f.fill("later", 600, fdbpq.NewItem{Delay: 2 * time.Minute})
		f.configure("later", `{"priority":4}`)
		end := f.serveLater("later")
		f.pass(5 * time.Minute)
		f.sweep()
		if n := f.counts("own"); n.Results != 0 {
			t.Errorf("%d results are left, and %d timers of their queue", n.Results, f.due()["own"])
		}
		end()
		f.sweep()
	})
}

// A queue that only a later program serves does not keep other queues from being swept, listed, counted and checked.
func TestQueueOfALaterProgram(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, queue := range []string{"later", "own"} {
			f.push(queue, fdbpq.NewItem{Payload: []byte("a")}, fdbpq.NewItem{Payload: []byte("bc"), Delay: 90 * time.Second})
			f.leaseOne(queue, time.Minute)
		}
		f.configure("own", `{"priority":3}`) // or both states were one row
		f.configure("later", `{"priority":4}`)
		end := f.serveLater("later")

		f.pass(75 * time.Second)
		if events := f.sweep(); len(events) != 1 || events[0].Type != fdbpq.EventLeaseLost || events[0].Queue != "own" {
			t.Errorf("the sweep had the events %+v, expected that the lease in own was lost", events)
		}
		f.pass(30 * time.Second)
		f.sweep()
		if due := f.due(); due["later"] != 2 || due["own"] != 0 {
			t.Errorf("due are %v, expected the timers of later alone", due)
		}
		if n := f.counts("own"); n.Ready != 2 {
			t.Errorf("own has %+v, expected that all is ready", n)
		}

		var names []string
		sizes := make(map[string]fdbpq.Size)
		f.view(func(r kv.Reader) (err error) {
			names, err = f.Queues(r, "", 10)
			for _, name := range names {
				size, failed := f.Queue(name).Size(r)
				sizes[name], err = size, errors.Join(err, failed)
			}
			return err
		})
		if want := []string{"later", "own"}; !slices.Equal(names, want) {
			t.Errorf("the queues are %q, expected %q", names, want)
		}
		if want := (fdbpq.Size{Items: 2, Bytes: 3}); sizes["later"] != want {
			t.Errorf("later has the size %+v, expected %+v", sizes["later"], want)
		}
		err := f.fails(func(tx kv.Tx) error {
			_, err := f.Queue("later").Pop(tx, fdbpq.Selection{Limit: 1})
			return err
		})
		if !errors.Is(err, fdbpq.ErrFormat) {
			t.Errorf("a pop: %v, expected ErrFormat", err)
		}
		problems, err := storecheck.Check(t.Context(), f.Store)
		if err != nil || len(problems) != 1 || !strings.Contains(problems[0], `queue "later" were not checked`) {
			t.Errorf("the check found %q, %v; expected that it has left out later", problems, err)
		}

		end()
		f.pass(40 * time.Second) // for a minute the process remembers that it need not look
		if events := f.sweep(); len(events) != 1 || events[0].Queue != "later" {
			t.Errorf("a program that serves the queue had the events %+v", events)
		}
	})
}

// A process that has passed over timers lets another one sweep at once, and all others have to wait.
func TestSweeperOfALaterProgram(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		busy := func() bool {
			f.leaseOne("own", time.Millisecond)
			f.leaseOne("own", 2*time.Second)
			together(time.Second, f, other)
			f.sweep()
			together(time.Second, f, other)
			swept, err := other.Sweep(t.Context())
			if err != nil || !swept.Busy && swept.Timers != 1 {
				t.Fatalf("another process: %+v, %v", swept, err)
			}
			return swept.Busy
		}
		f.pushed("own", 0, "a", "b", "c", "d")
		if !busy() {
			t.Error("two processes swept within a moment")
		}
		f.pushed("later", 0, "a")
		f.configure("later", `{"priority":4}`)
		f.leaseOne("later", time.Millisecond)
		end := f.serveLater("later")
		if busy() {
			t.Error("a process keeps timers from a later program")
		}
		end()
	})
}

// However many timers stay for a later program, those of other queues are found behind them, and are not looked for behind all of
// them each time. Kinds of timers that this program does not know are among them.
func TestManyTimersOfALaterProgram(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		db := &countingDB{DB: open()}
		f := openFixture(t, func() kv.DB { return db })
		f.pushed("own", 0, "a")
		f.pushed("later", 0, "a")
		f.configure("later", `{"priority":4}`)
		end := f.serveLater("later")
		const many = 20_000
		timers := make([]kv.Pair, many)
		for i := range timers {
			key := tuple.AppendInt(tuple.AppendString(nil, "z"), f.now()+int64(i))
			timers[i].Key = tuple.AppendString(tuple.AppendString(tuple.AppendString(key, "unknown"), "later"), fmt.Sprint(i))
		}
		for page := range slices.Chunk(timers, 1000) {
			load(t, f.base, page)
		}
		f.leaseOne("own", time.Minute)
		f.pass(2 * time.Minute)
		if events := f.sweepAll(t); len(events) != 1 || events[0].Queue != "own" {
			t.Errorf("the sweeps had the events %+v", events)
		}
		before := db.rows.Load()
		f.leaseOne("own", time.Second)
		f.pass(2 * time.Second)
		if events := f.sweepAll(t); len(events) != 1 || events[0].Queue != "own" {
			t.Errorf("a later sweep had the events %+v", events)
		}
		if read := db.rows.Load() - before; read > 1000 {
			t.Errorf("a later sweep read %d rows", read)
		}
		if due := f.due()["later"]; due != many {
			t.Errorf("%d timers are left, expected %d", due, many)
		}
		end()
		err := f.base.Update(t.Context(), func(tx kv.Tx) error {
			tx.ClearRange(timers[0].Key, append(timers[many-1].Key, 0))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// countingDB counts the rows of ranges that transactions read from snapshots.
type countingDB struct {
	kv.DB
	rows atomic.Int64
}

type countingTx struct {
	kv.Tx
	db *countingDB
}

type countingReader struct {
	kv.Reader
	db *countingDB
}

func (db *countingDB) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return db.DB.Update(ctx, func(tx kv.Tx) error { return fn(&countingTx{tx, db}) })
}

func (tx *countingTx) Snapshot() kv.Reader { return &countingReader{tx.Tx.Snapshot(), tx.db} }

func (r *countingReader) Range(begin, end []byte, options kv.RangeOptions) ([]kv.Pair, error) {
	rows, err := r.Reader.Range(begin, end, options)
	r.db.rows.Add(int64(len(rows)))
	return rows, err
}

// sweepAll sweeps until nothing is left to do at once.
func (f *fixture) sweepAll(t *testing.T) (events []fdbpq.Event) {
	for range 10 {
		swept, err := f.Sweep(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, swept.Events...)
		if swept.Next == 0 || swept.Next > time.Second {
			return events
		}
	}
	t.Fatal("ten sweeps have not found the end")
	return nil
}

// What a purge has left of a queue that only a later program serves stays for that program, and that of other queues goes.
func TestGarbageOfALaterProgram(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, queue := range []string{"later", "own"} {
			f.pushed(queue, 0, "a", "b")
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue(queue).Purge(tx)
				return err
			})
		}
		f.configure("later", `{"priority":4}`)
		end := f.serveLater("later")
		for range 10 {
			more, err := f.CollectGarbage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !more {
				break
			}
		}
		left := make(map[bool]int)
		for _, row := range f.rows("i") {
			left[bytes.Contains(row.Key, []byte("later"))]++
		}
		if left[true] != 2 || left[false] != 0 || len(f.rows("g")) != 1 {
			t.Errorf("left are %v, and %d rows of garbage; expected two items of later", left, len(f.rows("g")))
		}
		end()
		f.collectGarbage()
		if rows := f.rows("i"); len(rows) != 0 {
			t.Errorf("%d items are left", len(rows))
		}
	})
}

// A schedule of a queue that only a later program serves stays due, other schedules fire, and a later program may fire at once.
func TestSchedulesOfALaterProgram(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		one, other := f.another(5*time.Minute), f.another(5*time.Minute) // schedules go by another clock than the store
		for _, queue := range []string{"later", "own"} {
			f.configure(queue, `{"priority":1}`)
			f.schedule(queue, "every", `{"spec":"@every 1m"}`)
		}
		f.configure("later", `{"priority":4}`)
		end := f.serveLater("later")
		if _, err := one.schedules.Fire(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		together(2*time.Minute, f, one, other)
		fired, err := one.schedules.Fire(t.Context(), nil, nil)
		if err != nil || fired.Schedules != 1 || fired.Busy {
			t.Fatalf("fired %+v, %v", fired, err)
		}
		if n := f.counts("own"); n.Ready == 0 {
			t.Errorf("own has %+v", n)
		}
		end()
		if fired, err = other.schedules.Fire(t.Context(), nil, nil); err != nil || fired.Busy || fired.Queues["later"].Fired == 0 {
			t.Errorf("a later program fired %+v, %v", fired, err)
		}
	})
}

// A transaction that began before timers were passed over may set one that is due before them.
func TestTimerBeforeThoseOfALaterProgram(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		f.pushed("own", 0, "a")
		f.pushed("later", 0, "a")
		f.configure("later", `{"priority":4}`)
		f.leaseOne("later", time.Second)
		end := f.serveLater("later")
		f.hook = func(at fault.Point) {
			if at != fault.BeforeCommit {
				return
			}
			f.hook = nil
			f.clock.advance(2 * time.Second)
			if swept, err := other.Sweep(t.Context()); err != nil || swept.Timers != 0 {
				t.Errorf("a sweep before the commit: %+v, %v", swept, err)
			}
		}
		f.leaseOne("own", time.Millisecond)
		if events := other.sweep(); len(events) != 1 || events[0].Queue != "own" {
			t.Errorf("the sweep behind the commit had the events %+v", events)
		}
		end()
	})
}
