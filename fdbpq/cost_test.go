package fdbpq_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
)

// cost is what one run of a transaction asks of the store.
type cost struct {
	reads  int // rows and ranges that are asked for
	rows   int // of these ranges
	writes int // rows that are set, added to or cleared
	bytes  int // of their keys and values
}

// priced is a store that counts what transactions cost.
type priced struct {
	kv.DB
	last cost
}

func (c *priced) Brief() int { return kv.BriefOf(c.DB) }

func (c *priced) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return c.DB.Update(ctx, func(tx kv.Tx) error {
		c.last = cost{}
		return fn(&pricedTx{tx, pricedReader{tx, &c.last}, &c.last})
	})
}

func (c *priced) View(ctx context.Context, fn func(kv.Reader) error) error {
	return c.DB.View(ctx, func(r kv.Reader) error {
		c.last = cost{}
		return fn(pricedReader{r, &c.last})
	})
}

type pricedReader struct {
	kv.Reader
	cost *cost
}

func (r pricedReader) Get(key []byte) ([]byte, error) {
	r.cost.reads++
	return r.Reader.Get(key)
}

func (r pricedReader) GetAll(keys [][]byte) ([][]byte, error) {
	r.cost.reads += len(keys)
	return r.Reader.GetAll(keys)
}

func (r pricedReader) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	r.cost.reads++
	rows, err := r.Reader.Range(begin, end, opts)
	r.cost.rows += len(rows)
	return rows, err
}

// pricedTx counts writes as often as they are asked for, for engines need not join them.
type pricedTx struct {
	kv.Tx
	reader pricedReader
	cost   *cost
}

func (t *pricedTx) Get(key []byte) ([]byte, error)         { return t.reader.Get(key) }
func (t *pricedTx) GetAll(keys [][]byte) ([][]byte, error) { return t.reader.GetAll(keys) }
func (t *pricedTx) Snapshot() kv.Reader                    { return pricedReader{t.Tx.Snapshot(), t.cost} }
func (t *pricedTx) Set(key, value []byte)                  { t.wrote(key, len(value)); t.Tx.Set(key, value) }
func (t *pricedTx) Clear(key []byte)                       { t.wrote(key, 0); t.Tx.Clear(key) }
func (t *pricedTx) ClearRange(begin, end []byte) {
	t.wrote(begin, len(end))
	t.Tx.ClearRange(begin, end)
}
func (t *pricedTx) Add(key []byte, delta int64)  { t.wrote(key, 8); t.Tx.Add(key, delta) }
func (t *pricedTx) Max(key []byte, value uint64) { t.wrote(key, 8); t.Tx.Max(key, value) }

func (t *pricedTx) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	return t.reader.Range(begin, end, opts)
}

func (t *pricedTx) wrote(key []byte, value int) {
	t.cost.writes++
	t.cost.bytes += len(key) + value
}

// costs are operations on items of 100 bytes, of which there are enough.
var costs = []struct {
	name, config string
	item         fdbpq.NewItem
	do           string        // push, pop, lease, or something with leased items, see costOf
	later        time.Duration // than all else
}{
	{name: "push", do: "push"},
	{name: "push with a message id", item: fdbpq.NewItem{MsgID: "0123456789"}, do: "push"},
	{name: "delayed push", item: fdbpq.NewItem{Delay: time.Hour}, do: "push"},
	{name: "pop", do: "pop"},
	{name: "lease", do: "lease"},
	{name: "`+ACK`", do: "ack"},
	{name: "`-NAK`", do: "nak"},
	{name: "`+TERM`", do: "term"},
	{name: "`+WPI`", do: "extend"},
	{name: "`+WPI 3 of 9`", do: "report"},
	{name: "cancel of a leased item", do: "cancel"},
	{name: "push that hands over", config: `{"hand_over":"*"}`, do: "hand over"},
	{name: "push with a key", item: fdbpq.NewItem{Key: "k"}, config: `{"key_limit":1000}`, do: "push"},
	{name: "lease with a key", item: fdbpq.NewItem{Key: "k"}, config: `{"key_limit":1000}`, do: "lease"},
	{name: "`+ACK` with a key", item: fdbpq.NewItem{Key: "k"}, config: `{"key_limit":1000}`, do: "ack"},
	{name: "`-NAK` with a key", item: fdbpq.NewItem{Key: "k"}, config: `{"key_limit":1000}`, do: "nak"},
	{name: "lease under a `cost_rate`", item: fdbpq.NewItem{Cost: 10}, config: `{"cost_rate":"1000000/1s"}`, do: "lease"},
	{name: "`+ACK` with a true cost", item: fdbpq.NewItem{Cost: 10}, config: `{"cost_rate":"1000000/1s"}`, do: "ack at a cost"},
	{name: "push that notes its use", config: `{"expire_empty":"1h"}`, do: "push", later: 6 * time.Minute},
}

// What docs/scaling.md says an operation costs is what it costs, on every engine. Bytes depend a little on
// random parts of ids.
func TestCosts(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[string][]int) // the numbers of a line
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		var numbers []int
		for _, cell := range cells[1:] {
			if n, err := strconv.Atoi(strings.ReplaceAll(cell, ",", "")); err == nil {
				numbers = append(numbers, n)
			}
		}
		told[cells[0]] = numbers
	}
	for _, engine := range tested(t) {
		t.Run(engine.name, func(t *testing.T) {
			for _, op := range costs {
				one, hundred := costOf(t, engine, op.do, op.config, op.item, 1, op.later), costOf(t, engine, op.do, op.config, op.item, 100, op.later)
				counted := []int{one.reads, one.writes, one.bytes, hundred.reads, hundred.writes, hundred.bytes}
				numbers := told[op.name]
				same := len(numbers) == len(counted)
				for i := 0; same && i < len(counted); i++ {
					bytes := i%3 == 2
					same = numbers[i] == counted[i] || bytes && math.Abs(float64(numbers[i]-counted[i])) <= 0.1*float64(counted[i])
				}
				if !same {
					t.Errorf("%s: docs/scaling.md says %v, counted %v", op.name, numbers, counted)
				}
			}
		})
	}
}

// What happens to an item after its push does not write its content again, if that is long for the engine.
func TestLongContentIsWrittenOnce(t *testing.T) {
	t.Parallel()
	for _, engine := range tested(t) {
		t.Run(engine.name, func(t *testing.T) {
			db, err := engine.place(t)()
			if err != nil {
				t.Fatal(err)
			}
			long := min(kv.BriefOf(db), 32<<10) + 1
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			for _, do := range []string{"lease", "ack", "nak"} {
				short := costOf(t, engine, do, "", fdbpq.NewItem{}, 1, 0)
				if c := costOf(t, engine, do, "", fdbpq.NewItem{Payload: make([]byte, long)}, 1, 0); c.bytes > short.bytes+100 {
					t.Errorf("%s of an item of %d bytes writes %d bytes: expected no more than the %d of an item of 100 bytes, and a key", do, long, c.bytes, short.bytes)
				}
			}
		})
	}
}

// costOf is the cost of a transaction that does something with n items, some time after what comes before it.
func costOf(t *testing.T, engine engine, do, config string, item fdbpq.NewItem, n int, later time.Duration) cost {
	t.Helper()
	base, err := engine.place(t)()
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	db := &priced{DB: base}
	f := newFixture(t, db)
	if config != "" {
		f.configure("jobs", config)
	}
	if item.Payload == nil {
		item.Payload = make([]byte, 100)
	}
	id := 0
	push := func(n int) {
		items := make([]fdbpq.NewItem, n)
		for i := range items {
			items[i] = item
			if item.MsgID != "" {
				id++
				items[i].MsgID = fmt.Sprint(1_000_000_000 + id)
			}
		}
		f.push("jobs", items...)
	}
	for range 5 {
		push(200)
	}
	f.lease("jobs", fdbpq.Min, 100, time.Hour)
	f.clock.advance(later)
	switch do {
	case "push":
		push(n)
	case "pop":
		f.pop("jobs", fdbpq.Min, n)
	case "lease":
		f.lease("jobs", fdbpq.Min, n, time.Hour)
	default:
		leased := f.lease("jobs", fdbpq.Min, n, time.Hour)
		f.together(func(tx kv.Tx, w *fdbpq.Work) error {
			queue := w.Queue("jobs")
			for _, item := range leased.Items {
				var err error
				switch do {
				case "ack at a cost":
					item.Lease.Spent = new(int64(11))
					fallthrough
				case "ack":
					_, err = queue.Ack(tx, *item.Lease)
				case "nak":
					_, err = queue.Nack(tx, *item.Lease, fdbpq.Nack{})
				case "term":
					_, err = queue.Terminate(tx, *item.Lease, "")
				case "extend":
					_, err = queue.Extend(tx, *item.Lease, time.Hour)
				case "report":
					_, err = queue.Report(tx, *item.Lease, time.Hour, "3 of 9")
				case "cancel":
					_, err = queue.Cancel(tx, item.ID, fdbpq.Cancellation{})
				case "hand over":
					_, err = w.Queue("next").Push(tx, fdbpq.NewItem{Payload: item.Payload, HandOver: item.Lease})
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return db.last
}

// What explains a queue reads a bounded number of rows, however many items there are: as many of 1,000 delayed ones as of 20,000,
// and at night of a million.
func TestCostsOfAnExplanation(t *testing.T) {
	t.Parallel()
	many := 20_000
	if nightly.Runs() {
		many = 1_000_000
	}
	for _, engine := range tested(t) {
		t.Run(engine.name, func(t *testing.T) {
			few, most := costOfExplaining(t, engine, 1000), costOfExplaining(t, engine, many)
			if few != most || most[0].rows > 200 || most[1].rows > 500 {
				t.Errorf("of 1,000 delayed items %+v, of %d %+v: expected the same, and at most 200 and 500 rows", few, many, most)
			}
			t.Logf("%+v", most)
		})
	}
}

// costOfExplaining is what the explanation of a queue reads whose items are delayed, and what it reads when others are ready and
// leased. Some have failed, before and behind so many delayed ones.
func costOfExplaining(t *testing.T, engine engine, delayed int) [2]cost {
	t.Helper()
	base, err := engine.place(t)()
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	db := &priced{DB: base}
	f := newFixture(t, db)
	fail := func(priority int64, delay time.Duration) {
		f.push("jobs", fdbpq.NewItem{Priority: priority, HasPriority: true})
		lease := *f.lease("jobs", fdbpq.Min, 1, time.Hour).Items[0].Lease
		if err := f.nack(lease, delay); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		fail(0, time.Hour)
		fail(2, time.Hour)
	}
	later := slices.Repeat([]fdbpq.NewItem{{Priority: 1, HasPriority: true, Delay: time.Hour}}, fdbpq.MaxBatch)
	for left := delayed; left > 0; left -= len(later) {
		f.push("jobs", later[:min(left, len(later))]...)
	}
	look := func(leased, ready int64) cost {
		f.view(func(r kv.Reader) error {
			q := f.Queue("jobs")
			i, err := q.Inspect(r)
			if err != nil || i.Leased != leased || i.Ready != ready {
				return fmt.Errorf("inspected: %+v, %w", i, err)
			}
			oldest, err := q.OldestLease(r, 256)
			if err != nil {
				return err
			}
			if _, err := i.Explain(oldest, fdbpq.Held{}); err != nil {
				return err
			}
			found, err := fdbpq.FailingOf(i)
			if err == nil && found.Items != 16 {
				err = fmt.Errorf("%d items have failed, expected the first 16", found.Items)
			}
			return err
		})
		return db.last
	}
	waiting := look(0, 0)
	for range 20 {
		f.push("jobs", slices.Repeat([]fdbpq.NewItem{{}}, 50)...)
	}
	f.lease("jobs", fdbpq.Min, 500, time.Hour)
	return [2]cost{waiting, look(500, 500)}
}

// Pushes of one Work cost what one push of all items costs, whether a limit depends on the counters or not.
func TestCostsOfOneWork(t *testing.T) {
	t.Parallel()
	for _, engine := range tested(t) {
		t.Run(engine.name, func(t *testing.T) {
			for _, config := range []string{`{}`, `{"max_length":100000}`, `{"max_bytes":100000000,"ttl":"1h"}`} {
				cost := func(push func(f *fixture, items []fdbpq.NewItem)) cost {
					base, err := engine.place(t)()
					if err != nil {
						t.Fatal(err)
					}
					defer base.Close()
					db := &priced{DB: base}
					f := newFixture(t, db)
					f.configure("jobs", config)
					items := make([]fdbpq.NewItem, 100)
					for i := range items {
						items[i] = fdbpq.NewItem{Payload: make([]byte, 100), Key: fmt.Sprint(i % 3)}
					}
					push(f, items)
					push(f, items)
					return db.last
				}
				one := cost(func(f *fixture, items []fdbpq.NewItem) { f.push("jobs", items...) })
				many := cost(func(f *fixture, items []fdbpq.NewItem) {
					f.together(func(tx kv.Tx, w *fdbpq.Work) error {
						for _, item := range items {
							if _, err := w.Queue("jobs").Push(tx, item); err != nil {
								return err
							}
						}
						return nil
					})
				})
				if one.reads != many.reads || one.writes != many.writes {
					t.Errorf("%s: one push costs %+v, a hundred in one Work %+v", config, one, many)
				}
			}
		})
	}
}
