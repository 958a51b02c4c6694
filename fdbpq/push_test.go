package fdbpq_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A refused push creates no queue.
func TestRefusedMakesNoQueue(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		id := f.pushed("q", 0, "one")[0]
		late := time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)
		for what, item := range map[string]fdbpq.Import{
			"pushed in 2300":  {ID: id, Pushed: late},
			"pushed in 1500":  {ID: id, Pushed: late.AddDate(-800, 0, 0)},
			"expires in 2300": {ID: id, Expires: late},
			"ready in 2300":   {ID: id, NotBefore: late},
			"a fence below 0": {ID: id, Fence: -1},
			"too many leases": {ID: id, Deliveries: 1<<62 + 1},
			"too large":       {ID: id, Payload: make([]byte, fdbpq.MaxContent+1)},
			"no place":        {},
		} {
			if one := f.imports("new", item)[0]; one.Err == nil {
				t.Errorf("import, %s: it was taken in", what)
			}
		}
		if p := f.push("new", fdbpq.NewItem{Delay: fdbpq.MaxDelay + 1}, fdbpq.NewItem{MsgID: "id", TTL: fdbpq.MaxDelay + 1}); p[0].Err == nil || p[1].Err == nil {
			t.Errorf("pushes: %+v, expected two errors", p)
		}
		f.fails(func(tx kv.Tx) error {
			_, err := f.Queue("new").Configure(tx, []byte(`{"ttl":5}`))
			return err
		})
		f.view(func(r kv.Reader) error {
			names, err := f.Queues(r, "", 10)
			if len(names) != 1 {
				t.Errorf("there are the queues %q, expected q alone", names)
			}
			return err
		})
		for _, row := range everything(t, f.base) {
			if string(row.Key[3:]) == string(tuple.AppendString(nil, "new")) {
				t.Errorf("there is a row %q = %q", row.Key, row.Value)
			}
		}
	})
}

// Limits count what earlier pushes of a Work have added, and begin anew when an operation of it empties the queue.
func TestLimitsInOneWork(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_length":3}`)
		f.pushed("q", 0, "before")
		f.together(func(tx kv.Tx, w *fdbpq.Work) error {
			q := w.Queue("q")
			push := func(room int) error {
				for n := range room + 2 {
					pushed, err := q.Push(tx, fdbpq.NewItem{Payload: []byte{byte(n)}})
					if err != nil {
						return err
					}
					if full := errors.Is(pushed[0].Err, fdbpq.ErrFull); full != (n >= room) {
						t.Errorf("push %d into room for %d: %v", n+1, room, pushed[0].Err)
					}
				}
				return nil
			}
			if err := push(2); err != nil {
				return err
			}
			if _, err := q.Purge(tx); err != nil {
				return err
			}
			if err := push(3); err != nil {
				return err
			}
			if _, err := q.Configure(tx, []byte(`{"max_length":4}`)); err != nil {
				return err
			}
			if err := push(1); err != nil {
				return err
			}
			if _, err := q.Delete(tx); err != nil {
				return err
			}
			if _, err := q.Configure(tx, []byte(`{"max_length":2}`)); err != nil {
				return err
			}
			return push(2)
		})
		if n := f.counts("q"); n.Ready != 2 {
			t.Errorf("counts are %+v, expected 2 items", n)
		}
	})
}
