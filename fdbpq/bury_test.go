package fdbpq_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// bury makes a dead letter, in a transaction that commits.
func (f *fixture) bury(queue fdbpq.Queue, item fdbpq.NewItem, reason string) (buried fdbpq.Pushed) {
	f.Helper()
	f.update(func(tx kv.Tx) (err error) {
		buried, err = queue.Bury(tx, item, reason)
		return err
	})
	return buried
}

// What was never an item is a dead letter like others: it says why, and where it comes from, and a requeue makes it an item.
func TestBury(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("jobs", `{"priority":4}`)
		var first fdbpq.ID
		for _, c := range []struct {
			item     fdbpq.NewItem
			reason   string
			priority int64
			says     string
		}{
			{fdbpq.NewItem{Payload: []byte("a"), Headers: []byte("A: 1\r\n")}, "no such customer", 4, "no such customer"},
			{fdbpq.NewItem{Payload: make([]byte, 300_000), Priority: -2, HasPriority: true}, strings.Repeat("r", 1023) + "ä", -2, strings.Repeat("r", 1023)},
			{fdbpq.NewItem{Priority: 7}, "", 4, ""},
		} {
			buried := f.bury(f.Queue("jobs"), c.item, c.reason)
			if buried.Err != nil || buried.Priority != c.priority || len(buried.Events) > 0 {
				t.Fatalf("buried: %+v", buried)
			}
			if first == (fdbpq.ID{}) {
				first = buried.ID
			}
			stored := f.get("jobs-dead", buried.ID)
			if stored == nil || string(stored.Payload) != string(c.item.Payload) || string(stored.Headers) != string(c.item.Headers) || stored.Seq != buried.Seq {
				t.Fatalf("the dead letter is %+v", stored)
			}
			if d := stored.Dead; d == nil || d.Reason != c.says || d.Origin != "jobs" || d.Deliveries != 0 || d.At.IsZero() {
				t.Errorf("it died so: %+v", d)
			}
		}
		f.has("after three burials", map[string]int64{"jobs-dead": 3})
		f.update(func(tx kv.Tx) error {
			requeued, err := f.Queue("jobs-dead").Requeue(tx, first, "")
			return errors.Join(err, requeued.Err)
		})
		f.has("after a requeue", map[string]int64{"jobs": 1, "jobs-dead": 2})
	})
}

// A burial that is refused leaves nothing behind, and says why.
func TestBuryIsRefused(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		small := fdbpq.NewItem{Payload: []byte("a")}
		if err := f.fails(func(tx kv.Tx) error { _, err := f.Queue("none").Bury(tx, small, "why"); return err }); !errors.Is(err, fdbpq.ErrNoQueue) {
			t.Errorf("a queue that does not exist: %v", err)
		}
		long := strings.Repeat("q", fdbpq.MaxDeadLetterName)
		f.configure("jobs", `{}`)
		f.configure(long, `{}`)
		full := errors.New("the store is full")
		large := fdbpq.NewItem{Payload: make([]byte, fdbpq.MaxContent+1)}
		for _, c := range []struct {
			queue fdbpq.Queue
			item  fdbpq.NewItem
			want  error
		}{
			{f.Queue("jobs").Full(full), small, full},
			{f.Queue("jobs").Full(full), large, full},
			{f.Queue("jobs"), large, fdbpq.ErrContent},
			{f.Queue(long), small, fdbpq.ErrNoDeadLetterQueue},
		} {
			if buried := f.bury(c.queue, c.item, "why"); !errors.Is(buried.Err, c.want) {
				t.Errorf("%s: %+v, expected %v", c.queue.Name(), buried, c.want)
			}
		}
		f.has("after refusals", map[string]int64{})
	})
}

// Burials and pushes of one Work are in one transaction, and in their order. The dead letters go where those of the queue go.
func TestBuryBesidePushes(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("bad", `{"dead_letters_from":"jobs"}`)
		f.configure("jobs", `{"dead_letter":"bad"}`)
		f.together(func(tx kv.Tx, w *fdbpq.Work) error {
			for _, payload := range []string{"1", "2", "3"} {
				item := fdbpq.NewItem{Payload: []byte(payload)}
				if _, err := w.Queue("jobs").Push(tx, item); err != nil {
					return err
				}
				if _, err := w.Queue("jobs").Bury(tx, item, "why"); err != nil {
					return err
				}
			}
			return nil
		})
		f.has("together", map[string]int64{"jobs": 3, "bad": 3})
		f.expectPayloads("bad", "1", "2", "3")
		f.expectPayloads("jobs", "1", "2", "3")
	})
}
