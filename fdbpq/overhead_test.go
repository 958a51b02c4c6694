package fdbpq_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/storecheck"
)

// Whoever fills a bounded queue with items that have no content, but the longest texts, and has their leases end with
// reasons, makes it take no more than the pages say: the attempts that would take more are not remembered.
func TestBoundOfOverhead(t *testing.T) {
	t.Parallel()
	const most = 300_000
	f := fullStore(t)
	f.configure("q", fmt.Sprintf(`{"max_bytes":%d,"attempts":16,"key_order":true,"max_deliveries":0}`, most))
	empty := f.bytes()
	n := 0
	for ; ; n++ {
		item := fdbpq.NewItem{TTL: time.Hour, Key: strings.Repeat("k", fdbpq.MaxKey-6) + fmt.Sprintf("%06d", n)}
		if n%2 == 0 {
			item.Unique = strings.Repeat("u", fdbpq.MaxUnique-6) + fmt.Sprintf("%06d", n)
		}
		if p := f.push("q", item)[0]; p.Err != nil {
			break
		}
	}
	delay := time.Duration(0)
	for range 20 {
		for _, item := range f.lease("q", fdbpq.Min, n, time.Minute).Items {
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue("q").Nack(tx, *item.Lease, fdbpq.Nack{Delay: &delay, Reason: strings.Repeat("r", fdbpq.MaxAttemptReason)})
				return err
			})
		}
	}
	if got := f.bytes() - empty; got > mostRows*most || got < most {
		t.Errorf("%d items take %d bytes, the bound is %d: the page says up to %d times as many", n, got, most, mostRows)
	}
	if c := f.counts("q"); c.Overhead > most || c.Length() != int64(n) {
		t.Errorf("%d items are counted as %+v", n, c)
	}
}

// Items of an owner who has all bytes that he may have remember no attempts that take more, and those of others do.
func TestCrowdedOwner(t *testing.T) {
	t.Parallel()
	f := fullStore(t)
	f.Crowded(func(queue string) bool { return queue == "crowded" })
	for queue, most := range map[string]int64{"crowded": 0, "free": 5000} {
		f.configure(queue, `{"max_deliveries":0}`)
		f.push(queue, fdbpq.NewItem{})
		for range 16 {
			lease := *f.leaseOne(queue, time.Minute).Lease
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue(queue).Nack(tx, lease, fdbpq.Nack{Delay: new(time.Duration), Reason: strings.Repeat("r", fdbpq.MaxAttemptReason)})
				return err
			})
		}
		c := f.counts(queue)
		if c.Overhead > most || c.Overhead == 0 != (most == 0) {
			t.Errorf("queue %s: %+v", queue, c)
		}
		item := f.get(queue, f.leaseOne(queue, time.Minute).ID)
		if all, err := item.Attempts.All(); err != nil || len(all) == 0 || item.Deliveries != 17 {
			t.Errorf("queue %s: %d attempts after %d deliveries, %v", queue, len(all), item.Deliveries, err)
		}
	}
}

// What items take besides their content is counted while they are there, whatever state they are in.
func TestOverheadIsCounted(t *testing.T) {
	t.Parallel()
	f := fullStore(t)
	long := func(n int) string { return strings.Repeat("u", 600) + fmt.Sprint(n) }
	overhead := func(what string, want int64) {
		t.Helper()
		if got := f.counts("q").Overhead; got != want {
			t.Errorf("%s: the overhead is %d, expected %d", what, got, want)
		}
		problems, err := storecheck.Check(t.Context(), f.Store)
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: check says %q, %v", what, problems, err)
		}
	}
	const each = 2*601 - 512
	f.push("q", fdbpq.NewItem{Unique: long(1)}, fdbpq.NewItem{Unique: long(2)})
	overhead("two items", 2*each)
	lease := f.leaseOne("q", time.Minute)
	overhead("one is leased", 2*each)
	if err := f.ack(*lease.Lease); err != nil {
		t.Fatal(err)
	}
	overhead("acknowledged", each)
	f.pop("q", fdbpq.Min, 1)
	overhead("all are gone", 0)
	for what, end := range map[string]func(){"purged": func() { f.purge("q") }, "deleted": func() { f.delete("q") }} {
		f.push("q", fdbpq.NewItem{Unique: long(1)})
		overhead("one more", each)
		end()
		overhead(what, 0)
		f.collectGarbage()
	}
	f.push("q", fdbpq.NewItem{Unique: long(1)})
	overhead("made again", each)
}

// The overhead of an item counts as its content does, where it is pushed, and where it is evicted for another one.
func TestMaxBytesOfOverhead(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		item := func(n int) fdbpq.NewItem { // it counts 1600 bytes
			return fdbpq.NewItem{Payload: make([]byte, 88), Unique: strings.Repeat("u", 500) + fmt.Sprintf("%06d", n), Key: strings.Repeat("k", 125)}
		}
		f.configure("q", `{"max_bytes":4799}`)
		f.tries("the first", item(1), "")
		f.tries("the second", item(2), "")
		f.tries("one byte too many", item(3), "refused")
		f.configure("q", `{"max_bytes":4800}`)
		f.tries("the third", item(3), "")
		f.view(func(r kv.Reader) error {
			size, err := f.Queue("q").Size(r)
			if want := (fdbpq.Size{Items: 3, Bytes: 4800 - 3*512}); size != want {
				t.Errorf("the size is %+v, expected %+v", size, want)
			}
			return err
		})
		f.configure("q", `{"overflow":"evict"}`)
		if n := f.tries("one that is more urgent", fdbpq.NewItem{Priority: -1, HasPriority: true, Payload: make([]byte, 1600-512)}, ""); n != 1 {
			t.Errorf("%d items were evicted, expected one", n)
		}
		if n := f.tries("one as large as two", fdbpq.NewItem{Priority: -1, HasPriority: true, Payload: make([]byte, 3200-512)}, ""); n != 2 {
			t.Errorf("%d items were evicted, expected two", n)
		}
	})
}
