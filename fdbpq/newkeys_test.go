package fdbpq_test

import (
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Keys that are new all the time do not keep one waiting that has much to do.
func TestNewKeysKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority"}`)
		f.fill("q", 200, fdbpq.NewItem{Key: "z", Payload: []byte("z"), Weight: 3})
		f.fill("q", 200, fdbpq.NewItem{Payload: []byte("free")})
		var got []string
		for n := range 100 {
			f.push("q", fdbpq.NewItem{Key: fmt.Sprint("new ", n), Payload: []byte("new")})
			got = append(got, f.popped("q", 1)...)
		}
		// Many of the new keys wait as well, and each has a share.
		if z, free := count(got, "z"), count(got, "free"); z < 12 || free < 4 || z-3*free > 4 || 3*free-z > 4 {
			t.Errorf("a key of weight 3 got %d of 100 items, those without a key %d", z, free)
		}
		f.sound()
	})
}

// A pop looks at a bounded number of keys that come at once, and the others have their turn
// with the next pops.
func TestManyNewKeys(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority"}`)
		items := make([]fdbpq.NewItem, 1000)
		for i := range items {
			items[i].Key = fmt.Sprint("key", i)
		}
		f.push("q", items...)
		before := f.rows("fk")
		f.popped("q", 1)
		left := make(map[string]bool)
		for _, row := range f.rows("fk") {
			left[string(row.Key)] = true
		}
		looked := 0
		for _, row := range before {
			if !left[string(row.Key)] {
				looked++
			}
		}
		if looked == 0 || looked > 300 {
			t.Errorf("one pop looked at %d keys", looked)
		}
		if n := len(f.popped("q", 999)); n != 999 {
			t.Errorf("pops took %d of 999 items", n)
		}
		f.sound()
	})
}
