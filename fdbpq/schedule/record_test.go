package schedule_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
)

// A schedule whose time has come fires once, and an item that is pushed beside it is one more.
func TestFire(t *testing.T) {
	t.Parallel()
	store, db, passed := opened(t)
	s := schedule.New(store)
	fire := func(want int64) {
		t.Helper()
		fired, err := s.Fire(t.Context(), nil, nil)
		if err != nil || fired.Busy || fired.Queues["jobs"].Fired != want {
			t.Errorf("fired %+v, %v; expected %d times in jobs", fired, err, want)
		}
	}
	ready := func(queue string, want int64) {
		t.Helper()
		err := store.View(t.Context(), func(r kv.Reader) error {
			n, err := store.Queue(queue).Counts(r)
			if n.Ready != want {
				t.Errorf("%s has %d ready items, expected %d", queue, n.Ready, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	fire(0)
	passed.Add(int64(time.Hour))
	fire(2)
	fire(0)
	ready("jobs", 2)
	ready("mails", 1)
	passed.Add(int64(time.Hour)) // the items of the hour before live: these times overlap
	fire(0)
	ready("jobs", 2)
	change(t, db, func(tx kv.Tx) error {
		pushed, err := s.Push(tx, store.Queue("mails"), "daily", "", func(int) error { return fdbpq.ErrFull })
		if pushed.Err != nil || !pushed.Duplicate {
			t.Errorf("an item lives: %+v", pushed)
		}
		return err
	})
	ready("mails", 1)
}

// No push of another one finds or takes the unique value of a schedule's item.
func TestItemsOfSchedulesAreTheirOwn(t *testing.T) {
	t.Parallel()
	store, db, passed := opened(t)
	passed.Add(int64(time.Hour))
	if _, err := schedule.New(store).Fire(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	change(t, db, func(tx kv.Tx) error {
		items := []fdbpq.NewItem{{Unique: "daily"}, {Unique: "\x00schedule\x00daily"}}
		pushed, err := store.Queue("mails").Push(tx, items...)
		if err != nil {
			return err
		}
		if pushed[0].Err != nil || pushed[0].Duplicate {
			t.Errorf("a caller's value: %+v, expected another item", pushed[0])
		}
		if !errors.Is(pushed[1].Err, fdbpq.ErrUnique) {
			t.Errorf("the value of a schedule: %+v, expected %v", pushed[1], fdbpq.ErrUnique)
		}
		return nil
	})
}
