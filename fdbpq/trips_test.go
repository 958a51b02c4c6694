package fdbpq_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// trips counts how often a transaction waits for a store over a network. Reads that it has
// said ahead are under way together, so it waits for them once. What has come, and what it
// writes itself, it does not ask for again.
type trips struct {
	kv.Tx
	*waits
}

type waits struct {
	count int
	known []known
}

// known is a range that was asked for after so many waits.
type known struct {
	begin, end []byte
	asked      int
}

func newTrips(tx kv.Tx) *trips { return &trips{tx, &waits{}} }

// asked is after how many waits the last part of a range was asked for.
func (w *waits) asked(begin, end []byte) int {
	asked := -1
	for bytes.Compare(begin, end) < 0 {
		best := -1
		for i, k := range w.known {
			if bytes.Compare(k.begin, begin) <= 0 && bytes.Compare(begin, k.end) < 0 && (best < 0 || k.asked < w.known[best].asked) {
				best = i
			}
		}
		if best < 0 {
			w.ask(begin, end)
			return w.count
		}
		asked, begin = max(asked, w.known[best].asked), w.known[best].end
	}
	return asked
}

func (w *waits) ask(begin, end []byte) {
	w.known = append(w.known, known{bytes.Clone(begin), bytes.Clone(end), w.count})
}

// wait waits for what was asked for after so many waits.
func (w *waits) wait(asked int) {
	if asked == w.count {
		w.count++
	}
}

// wrote makes a range known at once.
func (w *waits) wrote(begin, end []byte) {
	w.known = append(w.known, known{bytes.Clone(begin), bytes.Clone(end), -1})
}

// behind is the key that follows a key.
func behind(key []byte) []byte { return append(bytes.Clone(key), 0) }

// looked is the range that a read has looked at.
func looked(begin, end []byte, opts kv.RangeOptions, pairs []kv.Pair) ([]byte, []byte) {
	if opts.Limit == 0 || len(pairs) < opts.Limit {
		return begin, end
	}
	if last := pairs[len(pairs)-1].Key; !opts.Reverse {
		return begin, behind(last)
	} else {
		return last, end
	}
}

func (t *trips) Prefetch(keys ...[]byte) {
	for _, key := range keys {
		t.asked(key, behind(key))
	}
}

func (t *trips) PrefetchRange(begin, end []byte, opts kv.RangeOptions) {
	if pairs, err := t.Tx.Snapshot().Range(begin, end, opts); err == nil {
		t.asked(looked(begin, end, opts, pairs))
	}
}

func (t *trips) Set(key, value []byte) {
	t.wrote(key, behind(key))
	t.Tx.Set(key, value)
}

func (t *trips) Clear(key []byte) {
	t.wrote(key, behind(key))
	t.Tx.Clear(key)
}

func (t *trips) ClearRange(begin, end []byte) {
	t.wrote(begin, end)
	t.Tx.ClearRange(begin, end)
}

func (t *trips) Get(key []byte) ([]byte, error) { return countedReader{t.Tx, t.waits}.Get(key) }
func (t *trips) GetAll(keys [][]byte) ([][]byte, error) {
	return countedReader{t.Tx, t.waits}.GetAll(keys)
}
func (t *trips) Snapshot() kv.Reader { return countedReader{t.Tx.Snapshot(), t.waits} }
func (t *trips) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	return countedReader{t.Tx, t.waits}.Range(begin, end, opts)
}

type countedReader struct {
	kv.Reader
	*waits
}

func (r countedReader) Get(key []byte) ([]byte, error) {
	r.wait(r.asked(key, behind(key)))
	return r.Reader.Get(key)
}

func (r countedReader) GetAll(keys [][]byte) ([][]byte, error) {
	asked := -1
	for _, key := range keys {
		asked = max(asked, r.asked(key, behind(key)))
	}
	r.wait(asked)
	return r.Reader.GetAll(keys)
}

func (r countedReader) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	pairs, err := r.Reader.Range(begin, end, opts)
	if err == nil {
		r.wait(r.asked(looked(begin, end, opts, pairs)))
	}
	return pairs, err
}

// A transaction that leases, or settles, items of many keys waits for the store hardly more
// often than one that does so with one item. Where keys take turns it reads a few at a time.
func TestKeysAreReadTogether(t *testing.T) {
	t.Parallel()
	const keys, together, settles = 40, 20, 2
	for config, leases := range map[string]int{
		`{"key_limit":1}`: 4, `{"key_limit":3}`: 4, `{"key_order":true}`: 4, `{"key_limit":1,"key_rate":"100/1s"}`: 5,
		`{"key_limit":1,"fair":"priority"}`: 26,
	} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			place := placeLocal(t)
			f := openFixture(t, func() kv.DB {
				db, err := place()
				if err != nil {
					t.Fatal(err)
				}
				return db
			})
			q := f.Queue("q")
			f.update(func(tx kv.Tx) error {
				_, err := q.Configure(tx, []byte(config))
				return err
			})
			for i := range 2 * keys {
				f.push("q", fdbpq.NewItem{Key: fmt.Sprint("key-", i%keys)})
			}
			waits := func(fn func(kv.Tx) error) (n int) {
				t.Helper()
				f.update(func(tx kv.Tx) error {
					counted := newTrips(tx)
					err := fn(counted)
					n = counted.count
					return err
				})
				return n
			}
			var held []fdbpq.Lease
			if n := waits(func(tx kv.Tx) error {
				sel := fdbpq.Selection{Limit: together}
				q.PrefetchPop(tx, sel, time.Hour)
				popped, err := q.Lease(tx, sel, time.Hour)
				held = held[:0]
				for _, item := range popped.Items {
					held = append(held, *item.Lease)
				}
				return err
			}); n > leases || len(held) != together {
				t.Errorf("leased %d items with %d waits, expected %d with %d at most", len(held), n, together, leases)
			}
			if n := waits(func(tx kv.Tx) error {
				return f.In(tx, func(w *fdbpq.Work) error {
					q := w.Queue("q")
					q.PrefetchLeases(tx, held...)
					err := q.PrefetchKeys(tx, held...)
					for _, l := range held {
						if err == nil {
							_, err = q.Ack(tx, l)
						}
					}
					return err
				})
			}); n > settles {
				t.Errorf("settled %d items with %d waits, expected %d at most", together, n, settles)
			}
		})
	}
}

// A transaction that pops from many queues waits for the store once: also when its process
// has not read any of them yet, if nobody has configured them, and when the pops may be
// repeated. For an item with a key it waits once more, for what the key has.
func TestQueuesAreReadTogether(t *testing.T) {
	t.Parallel()
	const queues = 20
	for name, c := range map[string]struct {
		item  fdbpq.NewItem
		popID string
		known bool
		lease time.Duration
		waits int
	}{
		"known": {known: true, waits: 1}, "unknown": {waits: 1}, "repeatable": {popID: "id", waits: 1}, "repeatable lease": {popID: "id", lease: time.Minute, waits: 1},
		"keys": {item: fdbpq.NewItem{Key: "k"}, known: true, lease: time.Minute, waits: 1 + queues},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				db := open()
				f := newFixture(t, db)
				for i := range queues {
					for range 2 { // a queue is known with its first item in it
						f.push(fmt.Sprint("jobs-", i), c.item)
					}
				}
				if !c.known {
					f = newFixture(t, db)
				}
				var popped, waits int
				f.update(func(tx kv.Tx) error {
					counted := newTrips(tx)
					sel := fdbpq.Selection{Limit: 1, PopID: c.popID}
					for i := range queues {
						f.Queue(fmt.Sprint("jobs-", i)).PrefetchPop(counted, sel, c.lease)
					}
					popped = 0
					for i := range queues {
						q := f.Queue(fmt.Sprint("jobs-", i))
						pop := q.Pop
						if c.lease > 0 {
							pop = func(tx kv.Tx, sel fdbpq.Selection) (fdbpq.Popped, error) { return q.Lease(tx, sel, c.lease) }
						}
						got, err := pop(counted, sel)
						if err != nil {
							return err
						}
						popped += len(got.Items)
					}
					waits = counted.count
					return nil
				})
				if popped != queues || waits > c.waits {
					t.Errorf("popped %d items of %d queues with %d waits, expected %d at most", popped, queues, waits, c.waits)
				}
			})
		})
	}
}

// A transaction that pushes to many queues, or many items to one, waits for the store once,
// whatever ids, times and unique values the items have; for keys it waits once more in each
// queue.
func TestPushesAreReadTogether(t *testing.T) {
	t.Parallel()
	const pushes = 20
	for name, c := range map[string]struct {
		config string
		item   func(n int) fdbpq.NewItem
		keys   bool
	}{
		"plain":       {item: func(int) fdbpq.NewItem { return fdbpq.NewItem{} }},
		"message id":  {item: func(n int) fdbpq.NewItem { return fdbpq.NewItem{MsgID: fmt.Sprint(n)} }},
		"unique":      {item: func(n int) fdbpq.NewItem { return fdbpq.NewItem{Unique: fmt.Sprint(n)} }},
		"delay":       {item: func(int) fdbpq.NewItem { return fdbpq.NewItem{Delay: time.Minute} }},
		"ttl":         {item: func(int) fdbpq.NewItem { return fdbpq.NewItem{TTL: time.Minute} }},
		"default ttl": {config: `{"ttl":"1m"}`, item: func(int) fdbpq.NewItem { return fdbpq.NewItem{} }},
		"max_length":  {config: `{"max_length":1000}`, item: func(int) fdbpq.NewItem { return fdbpq.NewItem{} }},
		"key":         {keys: true, item: func(n int) fdbpq.NewItem { return fdbpq.NewItem{Key: fmt.Sprint(n)} }},
		"key_limit":   {keys: true, config: `{"key_limit":3}`, item: func(n int) fdbpq.NewItem { return fdbpq.NewItem{Key: fmt.Sprint(n)} }},
	} {
		for _, queues := range []int{1, pushes} {
			t.Run(fmt.Sprint(name, " ", queues), func(t *testing.T) {
				t.Parallel()
				eachEngine(t, func(t *testing.T, open func() kv.DB) {
					f := newFixture(t, open())
					names := make([]string, queues)
					items := make([][]fdbpq.NewItem, queues)
					for i := range pushes {
						at := i % queues
						names[at] = fmt.Sprint("jobs-", at)
						items[at] = append(items[at], c.item(pushes+i))
					}
					for at, name := range names {
						if c.config != "" {
							f.configure(name, c.config)
						}
						f.push(name, c.item(at)) // so that the queue is known
						f.push(name, c.item(pushes+pushes+at))
					}
					var waits int
					f.update(func(tx kv.Tx) error {
						counted := newTrips(tx)
						for at, name := range names {
							f.Queue(name).PrefetchPush(counted, items[at]...)
						}
						for at, name := range names {
							results, err := f.Queue(name).Push(counted, items[at]...)
							for _, r := range results {
								if r.Err != nil || r.Duplicate {
									err = fmt.Errorf("%+v", r)
								}
							}
							if err != nil {
								return err
							}
						}
						waits = counted.count
						return nil
					})
					most := 1
					if c.keys {
						most += queues
					}
					if waits > most {
						t.Errorf("%d pushes waited %d times, expected %d at most", pushes, waits, most)
					}
				})
			})
		}
	}
}
