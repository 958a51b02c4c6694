package fdbpq_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// sized is an item of so many bytes, which counts 512 more.
func sized(bytes int, priority int64) fdbpq.NewItem {
	return fdbpq.NewItem{Headers: []byte("H: x\r\n"), Payload: make([]byte, bytes-6), Priority: priority, HasPriority: true}
}

// tries pushes an item and expects that it is refused, evicted, or neither.
func (f *fixture) tries(what string, item fdbpq.NewItem, want string) (events int) {
	f.Helper()
	p := f.push("q", item)[0]
	got := ""
	switch {
	case errors.Is(p.Err, fdbpq.ErrFull):
		got = "refused"
	case p.Err != nil:
		f.Fatal(p.Err)
	case p.Evicted:
		got = "evicted"
	}
	if got != want {
		f.Errorf("%s: %q, expected %q", what, got, want)
	}
	return len(p.Events)
}

// max_bytes counts ready, leased and delayed items by their payloads, headers and 512 each,
// so empty items count, too.
func TestMaxBytes(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_bytes":3000}`)
		f.tries("the first", sized(488, 1), "")
		f.tries("a delayed one", fdbpq.NewItem{Delay: time.Hour, Payload: make([]byte, 488)}, "")
		lease := f.leaseOne("q", time.Minute)
		f.tries("one byte too many", sized(489, 1), "refused")
		f.tries("as many as there are", fdbpq.NewItem{Payload: make([]byte, 488), Unique: "u"}, "")
		f.tries("an empty one", fdbpq.NewItem{}, "refused")
		if p := f.push("q", fdbpq.NewItem{Payload: make([]byte, 489), Unique: "u", OnConflict: fdbpq.ConflictReplace})[0]; !errors.Is(p.Err, fdbpq.ErrFull) {
			t.Errorf("a longer replacement: %v", p.Err)
		}
		if p := f.push("q", fdbpq.NewItem{Payload: make([]byte, 488), Unique: "u", OnConflict: fdbpq.ConflictReplace})[0]; p.Err != nil {
			t.Errorf("a replacement as long: %v", p.Err)
		}
		if err := f.nack(*lease.Lease, 0); err != nil {
			t.Fatal(err)
		}
		f.pop("q", fdbpq.Min, 2)
		pushed := f.push("q", fdbpq.NewItem{}, fdbpq.NewItem{}, fdbpq.NewItem{}, fdbpq.NewItem{})
		for i, p := range pushed {
			if (p.Err != nil) != (i == 3) {
				t.Errorf("item %d of a batch for three: %v", i, p.Err)
			}
		}
		if n := f.counts("q"); n.Length() != 4 || n.Bytes != 488 {
			t.Errorf("there are %+v", n)
		}
	})
}

// With evict the least urgent items go, eight at most. An item that would have the queue grow
// beyond its limit nevertheless is refused, and nothing is dropped for it.
func TestEvictBytes(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_bytes":10000,"overflow":"evict"}`)
		for range 10 {
			f.tries("a small one", sized(488, 5), "")
		}
		if n := f.tries("one of eight", sized(7488, 1), ""); n != 8 {
			t.Errorf("%d items were evicted, expected 8", n)
		}
		if n := f.tries("the least urgent one", sized(488, 9), "evicted"); n != 1 {
			t.Errorf("%d items were evicted, expected itself", n)
		}
		f.purge("q")
		for range 10 {
			f.tries("a small one", sized(488, 5), "")
		}
		if n := f.tries("one of nine", sized(8488, 1), "refused"); n != 0 || f.counts("q").Ready != 10 {
			t.Errorf("%d items were evicted, %+v are there", n, f.counts("q"))
		}
		if n := f.tries("one of nine, less urgent than none", sized(8488, 9), "evicted"); n != 1 || f.counts("q").Ready != 10 {
			t.Errorf("%d items were evicted, %+v are there", n, f.counts("q"))
		}
		f.configure("q", `{"max_bytes":1000}`)
		f.tries("one to a queue whose limit was lowered", sized(488, 1), "")
		f.tries("another one", sized(488, 1), "evicted")
		if n := f.counts("q").Ready; n != 1 {
			t.Errorf("%d items are left, expected 1", n)
		}
		f.purge("q")
		f.tries("a delayed one", fdbpq.NewItem{Delay: time.Hour, Payload: make([]byte, 488)}, "")
		f.tries("another delayed one", fdbpq.NewItem{Delay: time.Hour}, "refused")
	})
}

// The operator's bound holds for all queues. No configuration exceeds it, and one that was
// higher before stays and does not count.
func TestMaxQueueBytes(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_bytes":1000000}`)
		options := f.clock.options(0)
		options.MaxQueueBytes = 2000
		f = f.opened(options)
		f.tries("the first", sized(488, 1), "")
		f.tries("the second", sized(488, 1), "")
		f.tries("too much", fdbpq.NewItem{}, "refused")
		f.configure("q", `{"max_deliveries":1}`)
		var config *fdbpq.ConfigError
		err := f.fails(func(tx kv.Tx) error {
			_, err := f.Queue("q").Configure(tx, []byte(`{"max_bytes":2001}`))
			return err
		})
		if !errors.As(err, &config) || !strings.Contains(err.Error(), "2000") {
			t.Errorf("a higher bound: %v", err)
		}
		f.pop("q", fdbpq.Min, 9)
		f.configure("q", `{"max_bytes":1000}`)
		f.tries("the first", sized(488, 1), "")
		f.tries("more than its own", fdbpq.NewItem{}, "refused")
		f.configure("q", `{"max_bytes":0}`)
		f.tries("within the bound of all", sized(488, 1), "")
		f.tries("more than the bound of all", fdbpq.NewItem{}, "refused")
	})
}
