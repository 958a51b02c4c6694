package fdbpq_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// keptBytes is what a queue counts that has nothing but remembered ids, beyond what an id counts.
func (f *fixture) keptBytes(queue string) (n int64) {
	f.Helper()
	f.view(func(r kv.Reader) error {
		size, err := f.Queue(queue).Size(r)
		if err != nil {
			return err
		}
		counts, err := f.Queue(queue).Counts(r)
		n = size.Bytes - counts.Bytes - counts.Remembered*fdbpq.RememberedBytes
		return err
	})
	return n
}

func (f *fixture) popOnce(queue, id string, limit int, lease time.Duration) {
	f.Helper()
	f.update(func(tx kv.Tx) error {
		popped, err := f.Queue(queue).Lease(tx, fdbpq.Selection{Limit: limit, PopID: id, Repeated: true}, lease)
		if lease == 0 {
			popped, err = f.Queue(queue).Pop(tx, fdbpq.Selection{Limit: limit, PopID: id, Repeated: true})
		}
		if err == nil && len(popped.Items) != limit {
			err = fmt.Errorf("popped %d items, expected %d", len(popped.Items), limit)
		}
		return err
	})
}

// What a queue keeps to answer a pop again counts for as long as it is kept, however it is forgotten.
func TestKeptAnswersCount(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"dedup_window":"1m","lease":"1h"}`)
		expect := func(what string, want int64) {
			t.Helper()
			if got := f.keptBytes("q"); got != want {
				t.Errorf("%s: answers take %d bytes, expected %d", what, got, want)
			}
		}
		large := fdbpq.NewItem{Headers: []byte("H: x\r\n"), Payload: make([]byte, 9994)}
		f.push("q", large, large, large, large, fdbpq.NewItem{Payload: make([]byte, fdbpq.RememberedBytes)})
		f.popOnce("q", "first", 1, 0)
		expect("a pop", 10_000-256)
		f.pass(30 * time.Second)
		f.popOnce("q", "second", 2, 0)
		expect("two pops", 30_000-2*256)
		f.pass(31 * time.Second)
		f.sweep()
		f.pass(8 * time.Second) // a span of time, rounded up
		expect("the first one is forgotten", 20_000-256)
		f.popOnce("q", "second", 2, 0)
		f.pass(31 * time.Second)
		expect("the second one is repeated", 20_000-256)
		f.pass(time.Minute)
		expect("all are forgotten, and no sweep has come", 0)
		f.popOnce("q", "third", 1, 0)
		expect("another pop", 10_000-256)
		if rows := f.rows("pk"); len(rows) != 1 {
			t.Errorf("%d rows are left", len(rows))
		}
		f.popOnce("q", "short", 1, 0)
		expect("a pop of 256 bytes", 10_000-256)
		f.fill("q", 100, fdbpq.NewItem{})
		f.popOnce("q", "leases", 100, time.Hour)
		if got := f.keptBytes("q") - (10_000 - 256); got < 100*10 || got > 100*30 {
			t.Errorf("a hundred leases take %d bytes", got)
		}
		f.delete("q")
		f.push("q", fdbpq.NewItem{})
		expect("deleted and made again", 0)
	})
}

// However often a queue is popped, few rows count its answers.
func TestAnswersHaveFewRows(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"dedup_window":"50s"}`)
		for i := range 200 {
			f.push("q", fdbpq.NewItem{Payload: make([]byte, 1000)})
			f.popOnce("q", fmt.Sprint(i), 1, 0)
			f.pass(time.Second)
			if kept, rows := f.keptBytes("q")/(1000-256), len(f.rows("pk")); kept < min(int64(i), 49) || kept > 60 || rows > 20 {
				t.Fatalf("after %d pops, one each second: %d count, in %d rows", i, kept, rows)
			}
		}
	})
}
