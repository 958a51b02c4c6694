package bridge_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
	"github.com/pqbridge/pqbridge/testenv"
)

// countedDB counts the rows that views read.
type countedDB struct {
	kv.DB
	rows atomic.Int64
}

func (db *countedDB) View(ctx context.Context, fn func(kv.Reader) error) error {
	return db.DB.View(ctx, func(r kv.Reader) error { return fn(countedReader{r, &db.rows}) })
}

type countedReader struct {
	kv.Reader
	rows *atomic.Int64
}

func (r countedReader) Get(key []byte) ([]byte, error) {
	r.rows.Add(1)
	return r.Reader.Get(key)
}

func (r countedReader) GetAll(keys [][]byte) ([][]byte, error) {
	r.rows.Add(int64(len(keys)))
	return r.Reader.GetAll(keys)
}

func (r countedReader) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	pairs, err := r.Reader.Range(begin, end, opts)
	r.rows.Add(int64(1 + len(pairs)))
	return pairs, err
}

// A scrape reads as much with many queues as with only the queues that have places, and looks at a
// bounded number of priorities.
func TestScrapesReadLittle(t *testing.T) {
	t.Parallel()
	db := &countedDB{DB: faulty(t)}
	const places = 10
	c := serveOn(t, db, bridge.Options{MetricsQueues: places})
	add := func(first, n int) {
		t.Helper()
		err := c.env.Store.Session().Update(t.Context(), func(tx kv.Tx) error {
			for i := range n {
				if _, err := c.env.Store.Queue(fmt.Sprintf("q%05d", first+i)).Configure(tx, []byte("{}")); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// scrape returns how many rows a scrape reads, once one reads any: the result of the
	// one before serves for a while.
	scrape := func() int64 {
		t.Helper()
		least := int64(1 << 62) // others may read meanwhile
		for range 3 {
			testenv.Await(t, "a scrape reads the store", func() bool {
				before := db.rows.Load()
				c.metrics()
				read := db.rows.Load() - before
				if read >= places {
					least = min(least, read)
				}
				return read >= places
			})
		}
		return least
	}
	add(0, places)
	c.metrics() // gives places
	few := scrape()
	for first := places; first < 3000; first += 230 {
		add(first, 230)
	}
	if many := scrape(); many > few+places {
		t.Errorf("a scrape reads %d rows, and %d with 300 times as many queues", few, many)
	}
	for priority := range 500 {
		c.push(fmt.Sprintf("pq.q00003.push.%d", priority), "x")
	}
	deep := scrape()
	if deep > few+4*64 {
		t.Errorf("a scrape reads %d rows, and %d with 500 priorities in a queue", few, deep)
	}
	c.ask("pq.q00004.admin.config", `{"key_order":true,"lease":"1h"}`)
	for n := range 100 { // each key has an item that is leased, and one that waits for it
		c.push("pq.q00004.push", "x", "PQ-Key", fmt.Sprint("k", n))
		c.pop("pq.q00004.pop.min", "")
		c.push("pq.q00004.push", "x", "PQ-Key", fmt.Sprint("k", n))
	}
	if blocked := scrape(); blocked > deep+7*64 {
		t.Errorf("a scrape reads %d rows, and %d with a queue of which all keys wait", deep, blocked)
	}
}

// A queue that cannot be read takes its own numbers from the metrics and STATS, and no others.
func TestMetricsBesideDamage(t *testing.T) {
	t.Parallel()
	db := faulty(t)
	c := serveOn(t, db)
	queues := []string{"a", "bad", "c"} // which are read together
	for i := range 40 {
		queues = append(queues, fmt.Sprintf("d%02d", i))
	}
	for _, queue := range queues {
		c.push("pq."+queue+".push", "x")
	}
	write := func(fn func(tx kv.Tx)) {
		t.Helper()
		if err := db.Update(t.Context(), func(tx kv.Tx) error {
			fn(tx)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	row := tuple.AppendInt(tuple.AppendInt(tuple.AppendString(tuple.AppendString(nil, "i"), "bad"), 1), -1)
	write(func(tx kv.Tx) { tx.Set(row, tuple.AppendInt(tuple.AppendBytes(nil, nil), 99)) })
	defer write(func(tx kv.Tx) { tx.Clear(row) })
	testenv.Await(t, "STATS has the other queues", func() bool {
		shown := c.queueStats()
		return len(shown) == len(queues)-1 && shown["a"].Ready == 1 && shown["c"].Ready == 1
	})
	testenv.Await(t, "the other queues have metrics", func() bool {
		values := c.metrics()
		_, bad := values["pq_queue_items{queue=bad,state=ready}"]
		return !bad && values["pq_queue_items{queue=a,state=ready}"] == 1 && values["pq_queue_items{queue=c,state=ready}"] == 1 && values["pq_queue_pushed_total{queue=bad}"] == 1
	})
}
