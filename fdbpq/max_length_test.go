package fdbpq_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// max_length counts ready, leased and delayed items. An item that returns from a lease is
// never refused.
func TestMaxLength(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_length":3}`)
		f.pushed("q", 0, "leased", "ready")
		f.push("q", fdbpq.NewItem{Delay: time.Hour})
		item := f.leaseOne("q", time.Minute)
		full := func(want bool) {
			t.Helper()
			for _, p := range f.push("q", fdbpq.NewItem{Payload: []byte("more")}) {
				if errors.Is(p.Err, fdbpq.ErrFull) != want {
					t.Errorf("a push to %+v: %v", f.counts("q"), p.Err)
				}
			}
		}
		full(true)
		if err := f.nack(*item.Lease, 0); err != nil {
			t.Fatal(err)
		}
		full(true)
		f.pop("q", fdbpq.Min, 1)
		full(false)
		full(true)
		f.pop("q", fdbpq.Min, 2)
		pushed := f.push("q", make([]fdbpq.NewItem, 4)...)
		for i, p := range pushed {
			if (p.Err != nil) != (i >= 2) {
				t.Errorf("item %d of a batch for two places: %v", i, p.Err)
			}
		}
		f.configure("q", `{"max_length":0}`)
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
				f := openFixture(t, open)
				f.configure("q", fmt.Sprintf(`{"max_length":3,"overflow":"evict","ties":%q}`, ties))
				f.pushed("q", 9, "leased")
				f.leaseOne("q", time.Hour)
				old := f.pushed("q", 5, "old", "new")
				for _, c := range []struct {
					priority int64
					evicted  string // "" for the pushed item itself
				}{{6, ""}, {5, ""}, {4, "new"}, {5, ""}, {4, "old"}, {4, ""}, {3, "4"}} {
					p := f.push("q", fdbpq.NewItem{Payload: fmt.Append(nil, c.priority), Priority: c.priority, HasPriority: true})[0]
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
					if n := f.counts("q"); n.Length() != 3 || n.Leased != 1 {
						t.Errorf("there are %+v", n)
					}
				}
			})
		})
	}
}

// A duplicate of an item that another push evicts was not evicted itself.
func TestEvictedDuplicate(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_length":1,"overflow":"evict"}`)
		first := fdbpq.NewItem{MsgID: "id", Priority: 9, HasPriority: true}
		f.push("q", first)
		pushed := f.push("q", first, fdbpq.NewItem{Priority: 1, HasPriority: true})
		if len(pushed[1].Events) != 1 || !pushed[0].Duplicate || pushed[0].Evicted || pushed[1].Evicted {
			t.Errorf("%+v, expected a duplicate, and a push that evicts the first item", pushed)
		}
	})
}
