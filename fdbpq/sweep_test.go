package fdbpq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
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
