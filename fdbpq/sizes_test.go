package fdbpq_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// An item comes back as it was pushed, whatever its size and its bytes.
func TestContentOfAnySize(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, size := range []int{
			0, 1, 2<<10 - 1, 2 << 10, 2<<10 + 1, 32<<10 - 1, 32 << 10, 32<<10 + 1, 89_999, 90_000, 90_001, 99_999, 100_000, 100_001, 180_000,
			1 << 20, fdbpq.MaxContent,
		} {
			for _, of := range []string{"\x00", "\xff", "\x00\xff", "x"} {
				content := bytes.Repeat([]byte(of), size/len(of))
				cut := len(content) / 3
				item := fdbpq.NewItem{Headers: content[:cut], Payload: content[cut:]}
				id := f.push("q", item)[0].ID
				leased := f.leaseOne("q", time.Minute)
				if err := f.nack(*leased.Lease, 0); err != nil {
					t.Fatal(err)
				}
				pop := func() (item fdbpq.Item) {
					f.update(func(tx kv.Tx) error {
						popped, err := f.Queue("q").Pop(tx, fdbpq.Selection{Limit: 1, PopID: fmt.Sprint(size, of)})
						if err == nil {
							item = popped.Items[0]
						}
						return err
					})
					return item
				}
				for _, got := range []fdbpq.Item{leased, f.get("q", id).Item, pop(), pop()} {
					if !bytes.Equal(got.Headers, item.Headers) || !bytes.Equal(got.Payload, item.Payload) || got.Size != int64(len(content)) {
						t.Errorf("%d bytes of %q came back as %d and %d, of %d", len(content), of, len(got.Headers), len(got.Payload), got.Size)
					}
				}
			}
		}
	})
}

// What is too large is refused, itself alone.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		pushed := f.push("q",
			fdbpq.NewItem{Payload: []byte("first")},
			fdbpq.NewItem{Payload: make([]byte, fdbpq.MaxContent), Headers: []byte{0}},
			fdbpq.NewItem{Payload: []byte("id"), MsgID: strings.Repeat("\x00", kv.MaxKeySize)},
			fdbpq.NewItem{Payload: []byte("last"), MsgID: strings.Repeat("\x00", fdbpq.MaxMsgID)},
		)
		for i, want := range []error{nil, fdbpq.ErrContent, fdbpq.ErrMsgID, nil} {
			if !errors.Is(pushed[i].Err, want) {
				t.Errorf("item %d: error %v, expected %v", i, pushed[i].Err, want)
			}
		}
		if got := payloads(f.pop("q", fdbpq.Min, 10).Items); fmt.Sprint(got) != "[first last]" {
			t.Errorf("took %q", got)
		}
		err := f.fails(func(tx kv.Tx) error {
			_, err := f.Queue("q").Pop(tx, fdbpq.Selection{Limit: 1, PopID: strings.Repeat("x", fdbpq.MaxMsgID+1)})
			return err
		})
		if !errors.Is(err, fdbpq.ErrMsgID) {
			t.Errorf("a take with a long id: %v", err)
		}
		// A batch that exceeds a transaction is refused whole.
		batch := make([]fdbpq.NewItem, 400)
		for i := range batch {
			batch[i].Payload = make([]byte, 30_000)
		}
		err = f.fails(func(tx kv.Tx) error {
			_, err := f.Queue("q").Push(tx, batch...)
			return err
		})
		if !errors.Is(err, kv.ErrTooLarge) || f.counts("q").Ready != 0 {
			t.Errorf("a large batch: %v, and %d items are there", err, f.counts("q").Ready)
		}
	})
}

// A batch ends where the transaction would become too large, whatever the
// items are made of, so that a take never fails for what is in the queue.
func TestBatchFitsTransaction(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("q", 64)
	for _, c := range []struct {
		what string
		n    int // more than fit
		item fdbpq.NewItem
	}{
		{"zeros", 270, fdbpq.NewItem{Payload: make([]byte, 32<<10)}},
		{"text", 270, fdbpq.NewItem{Payload: bytes.Repeat([]byte("x"), 32<<10)}},
		{"chunks", 90, fdbpq.NewItem{Payload: make([]byte, 100_000)}},
		{"many", 1010, fdbpq.NewItem{Payload: make([]byte, 7000), TTL: time.Hour}},
		{"small", 1010, fdbpq.NewItem{TTL: time.Hour}},
		{"keys", 1010, fdbpq.NewItem{Payload: make([]byte, 5000), TTL: time.Hour, Key: strings.Repeat("k", fdbpq.MaxKey)}},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				f.fill(name, c.n, c.item)
				// Leases first: what they take comes back.
				for _, popID := range []string{"", "pop"} {
					sel := fdbpq.Selection{Limit: fdbpq.MaxBatch, PopID: popID}
					var leased fdbpq.Popped
					f.update(func(tx kv.Tx) (err error) {
						leased, err = f.Queue(name).Lease(tx, sel, time.Minute)
						return err
					})
					if n := len(leased.Items); n < 50 || n == c.n {
						t.Errorf("a lease with the id %q took %d of %d items", popID, n, c.n)
					}
					f.update(func(tx kv.Tx) error {
						for _, item := range leased.Items {
							if _, err := f.Queue(name).Nack(tx, *item.Lease, fdbpq.Nack{}); err != nil {
								return err
							}
						}
						return nil
					})
				}
				missing := 0
				for _, popID := range []string{strings.Repeat("p", fdbpq.MaxMsgID), ""} {
					f.fill(name, missing, c.item)
					var popped fdbpq.Popped
					f.update(func(tx kv.Tx) (err error) {
						popped, err = f.Queue(name).Pop(tx, fdbpq.Selection{Limit: fdbpq.MaxBatch, PopID: popID})
						return err
					})
					if n := len(popped.Items); n < 50 || n == c.n {
						t.Errorf("a take with the id %q got %d of %d items", popID, n, c.n)
					}
					missing = len(popped.Items)
				}
			})
		})
	}
}

// Items that end in large numbers, or are large, all at once, do not make a
// transaction that fails for ever.
func TestManyLargeItemsDie(t *testing.T) {
	t.Parallel()
	large := fdbpq.NewItem{Payload: make([]byte, 8<<20), TTL: time.Second}
	small := fdbpq.NewItem{Payload: make([]byte, 32<<10), TTL: time.Second}
	for _, how := range []string{"swept", "taken", "leased"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				f.configure("q", `{"dead_letter_expired":true,"max_deliveries":1}`)
				items := []fdbpq.NewItem{small, large}
				if how == "leased" {
					items = []fdbpq.NewItem{{Payload: small.Payload}, {Payload: large.Payload}}
				}
				f.fill("q", 31, items[0])
				f.fill("q", 3, items[1])
				if how == "leased" {
					for f.counts("q").Ready > 0 {
						f.lease("q", fdbpq.Min, 10, time.Second)
					}
				}
				f.pass(2 * time.Second)
				if how == "taken" {
					for {
						popped := f.pop("q", fdbpq.Min, 1)
						if !popped.More {
							break
						}
					}
				}
				f.sweep()
				if n := f.counts("q-dead"); n.Ready != 34 {
					t.Errorf("%d of 34 items died", n.Ready)
				}
			})
		})
	}
}

// readBytes counts what is read.
type readBytes struct {
	kv.Reader
	n int
}

func (r *readBytes) Get(key []byte) ([]byte, error) {
	value, err := r.Reader.Get(key)
	r.n += len(value)
	return value, err
}

func (r *readBytes) GetAll(keys [][]byte) ([][]byte, error) {
	values, err := r.Reader.GetAll(keys)
	for _, value := range values {
		r.n += len(value)
	}
	return values, err
}

func (r *readBytes) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	pairs, err := r.Reader.Range(begin, end, opts)
	for _, pair := range pairs {
		r.n += len(pair.Key) + len(pair.Value)
	}
	return pairs, err
}

// A page without bodies does not read them.
func TestListReadsNoBodies(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.fill("q", 10, fdbpq.NewItem{Payload: make([]byte, 4<<20), Headers: []byte("headers")})
		f.view(func(r kv.Reader) error {
			counted := &readBytes{Reader: r}
			page, err := f.Queue("q").List(counted, fdbpq.Listing{Limit: 1000})
			if err != nil {
				return err
			}
			for _, item := range page.Items {
				if string(item.Headers) != "headers" || item.Payload != nil {
					t.Errorf("headers are %q, and %d bytes of payload are there", item.Headers, len(item.Payload))
				}
			}
			if len(page.Items) != 10 || counted.n > 2<<20 {
				t.Errorf("a page of %d items read %d bytes", len(page.Items), counted.n)
			}
			return nil
		})
		// Their beginnings are read as far as that takes few bytes.
		f.fill("q", 10, fdbpq.NewItem{Payload: bytes.Repeat([]byte("beginning"), 1<<18)})
		f.view(func(r kv.Reader) error {
			counted := &readBytes{Reader: r}
			page, err := f.Queue("q").List(counted, fdbpq.Listing{Limit: 1000, Preview: 11})
			if err != nil {
				return err
			}
			begun := 0
			for _, item := range page.Items {
				if string(item.Payload) == "beginningbe" || string(item.Payload) == string(make([]byte, 11)) {
					begun++
				} else if item.Payload != nil {
					t.Errorf("a payload begins with %q", item.Payload)
				}
			}
			if len(page.Items) != 20 || begun != 16 || counted.n > 2<<20 {
				t.Errorf("a page of %d items with %d beginnings read %d bytes", len(page.Items), begun, counted.n)
			}
			return nil
		})
	})
}

// A page with bodies ends before it becomes too large, and says that there is
// more.
func TestListEndsEarly(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.fill("q", 9, fdbpq.NewItem{Payload: make([]byte, 3<<20)})
		var after *fdbpq.ID
		seen := 0
		for more := true; more; {
			f.view(func(r kv.Reader) error {
				page, err := f.Queue("q").List(r, fdbpq.Listing{Limit: 1000, Bodies: true, After: after})
				if err != nil {
					return err
				}
				more = page.More
				seen += len(page.Items)
				if n := len(page.Items); n == 0 || n > 2 {
					t.Fatalf("a page has %d items", n)
				}
				after = &page.Items[len(page.Items)-1].ID
				return nil
			})
		}
		if seen != 9 {
			t.Errorf("listed %d of 9 items", seen)
		}
	})
}

// A page of one key has a bounded number of items and bytes, and the next page goes on.
func TestListOfKeyEndsEarly(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		item fdbpq.NewItem
		n    int
		most int // items of a page
	}{
		"small items": {fdbpq.NewItem{Key: "k", Payload: []byte("x")}, 250, 100},
		"large items": {fdbpq.NewItem{Key: "k", Headers: bytes.Repeat([]byte("x"), 100_000)}, 100, 90},
	} {
		t.Run(what, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				f.fill("q", 3, fdbpq.NewItem{Key: "ka", Payload: []byte("x")})
				f.fill("q", c.n/2, c.item) // a transaction is limited, too
				f.fill("q", c.n/2, c.item)
				var after *fdbpq.ID
				seen := make(map[string]bool)
				for more := true; more; {
					f.view(func(r kv.Reader) error {
						page, err := f.Queue("q").List(r, fdbpq.Listing{Key: "k", Limit: 1000, After: after})
						if err != nil {
							return err
						}
						if n := len(page.Items); n == 0 || n > c.most {
							t.Fatalf("a page has %d items", n)
						}
						for _, item := range page.Items {
							seen[item.ID.String()] = item.Key == "k"
						}
						more, after = page.More, &page.Items[len(page.Items)-1].ID
						return nil
					})
				}
				if len(seen) != c.n {
					t.Errorf("listed %d of %d items", len(seen), c.n)
				}
			})
		})
	}
}

// A page without payloads ends with its rows, or with the headers that fit an answer.
func TestListEndsEarlyWithoutBodies(t *testing.T) {
	t.Parallel()
	for what, item := range map[string]fdbpq.NewItem{
		"rows":    {Payload: bytes.Repeat([]byte("x"), 32_000)},
		"headers": {Headers: bytes.Repeat([]byte("x"), 100_000), Payload: []byte("x")},
	} {
		t.Run(what, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				n := fdbpq.MaxBatchBytes/(len(item.Headers)+len(item.Payload)) + 10
				f.fill("q", n, item)
				f.view(func(r kv.Reader) error {
					page, err := f.Queue("q").List(r, fdbpq.Listing{Limit: fdbpq.MaxBatch, Preview: 1})
					if err == nil && (len(page.Items) >= n || len(page.Items) < n/2 || !page.More) {
						t.Errorf("a page has %d items of %d, more: %v", len(page.Items), n, page.More)
					}
					if _, err := f.Queue("q").List(r, fdbpq.Listing{Limit: fdbpq.MaxBatch + 1}); err == nil {
						t.Errorf("a page of %d items is not refused", fdbpq.MaxBatch+1)
					}
					return err
				})
			})
		})
	}
}

// Names and reasons that would not fit a row are refused or cut, before they
// make an item that cannot die.
func TestDeadLetterFits(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		err := f.fails(func(tx kv.Tx) error {
			_, err := f.Queue("q").Configure(tx, fmt.Appendf(nil, `{"dead_letter":%q}`, strings.Repeat("x", kv.MaxKeySize)))
			return err
		})
		var config *fdbpq.ConfigError
		if !errors.As(err, &config) {
			t.Errorf("a long name: %v", err)
		}
		f.pushed("q", 0, "one")
		item := f.leaseOne("q", time.Minute)
		err = f.settle(func(tx kv.Tx) (fdbpq.Settled, error) {
			return f.Queue("q").Terminate(tx, *item.Lease, strings.Repeat("because ", 20_000)+"é")
		})
		if err != nil {
			t.Fatal(err)
		}
		dead := f.pop("q-dead", fdbpq.Min, 1).Items[0].Dead
		if n := len(dead.Reason); n < 100 || n > 10_000 || !strings.HasPrefix(dead.Reason, "because because ") {
			t.Errorf("the reason has %d bytes", n)
		}
	})
}

// A queue whose limit was lowered far below its length takes pushes as before
// and shrinks bit by bit.
func TestLimitLowered(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.fill("q", 5000, fdbpq.NewItem{Payload: []byte("x")})
		f.configure("q", `{"max_length":10,"overflow":"evict"}`)
		for last := int64(5000); ; {
			f.pushed("q", -1, "new")
			n := f.counts("q").Length()
			if n == 10 {
				break
			}
			if n >= last {
				t.Fatalf("the queue has %d items, after %d", n, last)
			}
			last = n
		}
		if got := f.pop("q", fdbpq.Min, 100); len(got.Items) != 10 || string(got.Items[9].Payload) != "new" {
			t.Errorf("%d items are left, the last one is %q", len(got.Items), got.Items[9].Payload)
		}
	})
}

// What an item says of its bytes is what its queue counts, once it is there.
func TestBytesOfItems(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		text := func(n int) string { return strings.Repeat("t", n) }
		attempt := fdbpq.Attempt{N: 1, End: time.Unix(1_800_000_000, 0), Outcome: fdbpq.OutcomeNack, Reason: text(200), Holder: text(100)}
		var attempts []fdbpq.Attempt
		for range 12 {
			attempts = append(attempts, attempt)
			attempt.N++
		}
		for i, item := range []fdbpq.NewItem{
			{}, {Payload: []byte("abc"), Headers: []byte("H: x\r\n")}, {Unique: text(1000)}, {Key: text(128)}, {Unique: text(100), Key: text(100)}, {MsgID: "id"},
			{Unique: text(1000), Owner: text(20), MsgID: "id", Payload: []byte("abc")}, {ResultTTL: time.Hour},
		} {
			queue := fmt.Sprint("pushed", i)
			f.push(queue, item)
			f.hasBytes(queue, fdbpq.NewItemBytes(&item))
		}
		for i, item := range []fdbpq.Import{
			{Unique: "u", Payload: []byte("abc"), Headers: []byte("H: x\r\n")}, {Unique: text(1000), Key: text(120)}, {Unique: "u", Attempts: attempts},
			{Unique: "u", Attempts: attempts[:3], Dead: &fdbpq.DeadLetter{Reason: text(500), Origin: text(60), OriginID: text(60), At: time.Unix(1_800_000_000, 0)}},
		} {
			queue := fmt.Sprint("imported", i)
			if imported := f.imports(queue, item)[0]; imported.Err != nil {
				t.Fatal(imported.Err)
			}
			f.hasBytes(queue, fdbpq.ImportBytes(&item))
		}
	})
}

// hasBytes expects the size of a queue.
func (f *fixture) hasBytes(queue string, bytes int) {
	f.Helper()
	f.view(func(r kv.Reader) error {
		size, err := f.Queue(queue).Size(r)
		if err == nil && size.Bytes != int64(bytes) {
			f.Errorf("queue %s has %d bytes, its item says %d", queue, size.Bytes, bytes)
		}
		return err
	})
}
