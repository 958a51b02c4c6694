package fdbpq_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// max_length counts what is ready, leased and delayed. What comes back from a
// lease is never refused.
func TestMaxLength(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.configure("q", `{"max_length":3}`)
		b.pushed("q", 0, "leased", "ready")
		b.push("q", fdbpq.NewItem{Delay: time.Hour})
		item := b.leaseOne("q", time.Minute)
		full := func(want bool) {
			t.Helper()
			for _, p := range b.push("q", fdbpq.NewItem{Payload: []byte("more")}) {
				if errors.Is(p.Err, fdbpq.ErrFull) != want {
					t.Errorf("a push to %+v: %v", b.counts("q"), p.Err)
				}
			}
		}
		full(true)
		if err := b.nack(*item.Lease, 0); err != nil {
			t.Fatal(err)
		}
		full(true)
		b.take("q", fdbpq.Min, 1)
		full(false)
		full(true)
		b.take("q", fdbpq.Min, 2)
		pushed := b.push("q", make([]fdbpq.NewItem, 4)...)
		for i, p := range pushed {
			if (p.Err != nil) != (i >= 2) {
				t.Errorf("item %d of a batch for two places: %v", i, p.Err)
			}
		}
		b.configure("q", `{"max_length":0}`)
		full(false)
	})
}

// With evict, the newest ready item of the highest priority number goes, which
// may be the one just pushed.
func TestEvict(t *testing.T) {
	t.Parallel()
	for _, ties := range []fdbpq.Ties{fdbpq.TiesNewest, fdbpq.TiesOldest} {
		t.Run(string(ties), func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				b := openBench(t, open)
				b.configure("q", fmt.Sprintf(`{"max_length":3,"overflow":"evict","ties":%q}`, ties))
				b.pushed("q", 9, "leased")
				b.leaseOne("q", time.Hour)
				old := b.pushed("q", 5, "old", "new")
				for _, c := range []struct {
					priority int64
					evicted  string // "" for the pushed item itself
				}{{6, ""}, {5, ""}, {4, "new"}, {5, ""}, {4, "old"}, {4, ""}, {3, "4"}} {
					p := b.push("q", fdbpq.NewItem{Payload: fmt.Append(nil, c.priority), Priority: c.priority, HasPriority: true})[0]
					if p.Err != nil || p.Evicted != (c.evicted == "") {
						t.Errorf("a push of priority %d: %+v", c.priority, p)
					}
					if len(p.Events) != 1 || p.Events[0].Type != fdbpq.EventEvicted {
						t.Errorf("a push of priority %d told of %v", c.priority, p.Events)
						continue
					}
					switch id := p.Events[0].ID; {
					case c.evicted == "" && id != p.ID, c.evicted == "old" && id != old[0], c.evicted == "new" && id != old[1]:
						t.Errorf("a push of priority %d drove out %v", c.priority, id)
					}
					if n := b.counts("q"); n.Length() != 3 || n.Leased != 1 {
						t.Errorf("there are %+v", n)
					}
				}
			})
		})
	}
}

// Past dedup_limit ids, a push or a pop with a further one is refused; known
// ones are answered, and so are those without.
func TestDedupLimit(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.configure("q", `{"dedup_limit":3,"dedup_window":"1m"}`)
		b.pushed("q", 0, "one", "two")
		pushed := b.push("q", fdbpq.NewItem{MsgID: "a"}, fdbpq.NewItem{MsgID: "b"}, fdbpq.NewItem{MsgID: "a"})
		if pushed[0].Err != nil || pushed[1].Err != nil || !pushed[2].Duplicate {
			t.Errorf("two ids of three: %+v", pushed)
		}
		pop := func(id string) error {
			session := b.Session()
			defer session.Release()
			return session.Update(t.Context(), func(tx kv.Tx) error {
				_, err := b.Queue("q").Pop(tx, fdbpq.Selection{Limit: 1, PopID: id})
				return err
			})
		}
		if err := pop("p"); err != nil {
			t.Errorf("the third id: %v", err)
		}
		for _, p := range b.push("q", fdbpq.NewItem{MsgID: "c"}) {
			if !errors.Is(p.Err, fdbpq.ErrRemembered) {
				t.Errorf("a fourth id, of a push: %v", p.Err)
			}
		}
		if err := pop("p2"); !errors.Is(err, fdbpq.ErrRemembered) {
			t.Errorf("a fourth id, of a pop: %v", err)
		}
		if err := pop("p"); err != nil {
			t.Errorf("a known id at the limit: %v", err)
		}
		if p := b.push("q", fdbpq.NewItem{MsgID: "b"}, fdbpq.NewItem{}); !p[0].Duplicate || p[1].Err != nil {
			t.Errorf("a known id at the limit, and none: %+v", p)
		}
		together(time.Minute, b)
		if err := pop("p"); err != nil { // forgotten, but not swept yet: its place is free
			t.Errorf("an id again after the window: %v", err)
		}
		b.sweep()
		if p := b.push("q", fdbpq.NewItem{MsgID: "c"})[0]; p.Err != nil || p.Duplicate {
			t.Errorf("an id when others are forgotten: %+v", p)
		}
	})
}
