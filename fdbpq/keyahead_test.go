package fdbpq_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Get counts the ready items of its key that go before an item: by priority and push, and in
// order those first that were leased before.
func TestKeyAhead(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		ids := f.keyed("q", "a", 5, 4)
		urgent := f.keyed("q", "a", -1, 1)[0]
		f.keyed("q", "b", 0, 3)
		bare := f.pushed("q", 9, "nobody's")[0]
		delayed := f.push("q", fdbpq.NewItem{Key: "a", Priority: 9, HasPriority: true, Delay: time.Hour})[0].ID
		ahead := func(what string, id fdbpq.ID, want int) {
			t.Helper()
			if got := f.get("q", id).KeyAhead; got != want {
				t.Errorf("%s: %d items of the key go before it, expected %d", what, got, want)
			}
		}
		ahead("the most urgent one", urgent, 0)
		for i, id := range ids {
			ahead("one of four", id, i+1)
		}
		ahead("one without a key", bare, 0)
		ahead("a delayed one", delayed, 0)
		var leased []fdbpq.Lease
		for range 3 {
			leased = append(leased, *f.leaseOne("q", time.Hour).Lease) // urgent, and two of b
		}
		ahead("the first one behind a leased one", ids[0], 0)
		f.update(func(tx kv.Tx) error {
			_, err := f.Queue("q").Move(tx, leased[0].ID(), 7)
			return err
		})
		if err := f.nack(leased[0], 0); err != nil {
			t.Fatal(err)
		}
		ahead("one that returned behind the others", urgent, 4)
		f.leaseOne("q", time.Hour) // the last one of b
		if err := f.nack(*f.leaseOne("q", time.Hour).Lease, 0); err != nil {
			t.Fatal(err)
		}
		f.configure("q", `{"key_order":true}`)
		ahead("one that returned first, in order", ids[0], 0)
		ahead("one that returned behind it", urgent, 1)
		ahead("the first one behind both", ids[1], 2)
		f.fill("q", fdbpq.MaxKeyCount+5, fdbpq.NewItem{Key: "a"})
		ahead("one behind very many", ids[3], fdbpq.MaxKeyCount)
	})
}
