package fdbpq_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Whatever row of a queue is damaged, the queue is named.
func TestQueuesBetween(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.furnish()
		f.imports("q", fdbpq.Import{ID: f.pushed("zz", 0, "elsewhere")[0], Payload: []byte("imported")})
		seen := make(map[string]bool)
		for space := 'a'; space < 'z'; space++ { // timers are of no queue in particular
			ofQ := tuple.AppendString(tuple.AppendString(nil, string(space)), "q")
			for _, row := range f.rows(string(space)) {
				if !bytes.HasPrefix(row.Key, ofQ) {
					continue
				}
				seen[string(space)] = true
				var names []string
				f.view(func(r kv.Reader) (err error) {
					names, err = f.QueuesBetween(r, row.Key, row.Key)
					return err
				})
				if !slices.Equal(names, []string{"q"}) {
					t.Errorf("a row of kind %c: %q", space, names)
				}
			}
		}
		for _, space := range []string{"i", "d", "l", "f", "x", "m", "u", "p", "r"} {
			if !seen[space] {
				t.Errorf("there was no row of kind %q", space)
			}
		}
	})
}

// Names that begin like others, or are odd, keep their queues apart.
func TestQueuesDoNotMix(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		names := []string{"a", "a\x00", "a\x00\x01", "a\x01", "aa", "a\xff", "a.b", "a*", "a>", "ä", "", "\x00", "\xff", "a-dead"}
		for _, name := range names {
			f.push(name, fdbpq.NewItem{Payload: []byte(name), MsgID: "id", TTL: time.Hour}, fdbpq.NewItem{Payload: []byte(name), Delay: time.Second})
		}
		f.pass(time.Second)
		f.sweep()
		for i, name := range names {
			if i%3 == 0 {
				f.update(func(tx kv.Tx) error {
					n, err := f.Queue(name).Purge(tx)
					if n != 2 {
						t.Errorf("purged %d items of %q", n, name)
					}
					return err
				})
				for more := true; more; {
					var err error
					if more, err = f.CollectGarbage(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				continue
			}
			if got := payloads(f.pop(name, fdbpq.Min, 10).Items); len(got) != 2 || got[0] != name || got[1] != name {
				t.Errorf("queue %q holds %q", name, got)
			}
		}
	})
}

// A deleted queue is not listed while its items are cleared, and a page behind it is full.
func TestQueuesPassOverDeleted(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, name := range []string{"a", "b", "c", "d"} {
			f.pushed(name, 0, "one")
		}
		f.delete("a")
		f.delete("b")
		f.view(func(r kv.Reader) error {
			names, err := f.Queues(r, "", 2)
			if fmt.Sprint(names) != "[c d]" {
				t.Errorf("the first two queues are %q, expected c and d", names)
			}
			return err
		})
	})
}

// A page of names is one read, whatever the queues are configured to: one whose configuration
// cannot be read is named, too.
func TestQueuesReadLittle(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) { queuesReadLittle(openFixture(t, open)) })
}

func queuesReadLittle(f *fixture) {
	const queues = fdbpq.MaxBatch + 200
	for first := 0; first < queues; first += 100 {
		f.update(func(tx kv.Tx) error {
			for i := range 100 {
				if _, err := f.Queue(fmt.Sprintf("q%04d", first+i)).Configure(tx, []byte(`{}`)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	odd := tuple.AppendString(tuple.AppendString(nil, "q"), "q0500")
	read := func(after string, limit int) (names []string, reads int) {
		f.view(func(r kv.Reader) (err error) {
			var c cost
			names, err = f.Queues(pricedReader{r, &c}, after, limit)
			reads = c.reads
			return err
		})
		return names, reads
	}
	f.update(func(tx kv.Tx) error {
		value, err := tx.Get(odd)
		tx.Set(odd, bytes.Replace(value, []byte(`"lease"`), []byte(`!lease!`), 1))
		return err
	})
	for _, page := range []struct {
		after       string
		limit, want int
	}{{"", 101, 101}, {"", fdbpq.MaxBatch + 1, fdbpq.MaxBatch + 1}, {"q1100", 101, 99}, {"q1199", 101, 0}} {
		if names, reads := read(page.after, page.limit); len(names) != page.want || reads != 1 {
			f.Errorf("%d names behind %q: %d, after %d reads; expected %d after one", page.limit, page.after, len(names), reads, page.want)
		}
	}
	if names, _ := read("", queues+1); len(names) != queues || names[500] != "q0500" {
		f.Errorf("%d names of %d queues", len(names), queues)
	}
	f.update(func(tx kv.Tx) error {
		tx.Clear(odd) // the store is checked when the test ends
		return nil
	})
}
