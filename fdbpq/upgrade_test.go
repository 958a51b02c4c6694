package fdbpq_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

var flagGolden = flag.Bool("pq.golden", false, "write the store of this version to testdata, when it is a new format")

// golden is a store of each format that this version reads, row by row.
var golden = fmt.Sprintf("testdata/format-%d.txt", fdbpq.FormatVersion)

// everything returns all rows of an engine.
func everything(t testing.TB, db kv.DB) []kv.Pair {
	t.Helper()
	var pairs []kv.Pair
	err := db.View(t.Context(), func(r kv.Reader) (err error) {
		pairs, err = r.Range([]byte{0}, []byte{0xff}, kv.RangeOptions{Limit: 1 << 20})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pairs
}

func readGolden(t testing.TB) []kv.Pair {
	t.Helper()
	file, err := os.Open(golden)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var pairs []kv.Pair
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), " ")
		k, err1 := hex.DecodeString(key)
		v, err2 := hex.DecodeString(value)
		if err := errors.Join(err1, err2, lines.Err()); err != nil {
			t.Fatalf("%s: %v", golden, err)
		}
		pairs = append(pairs, kv.Pair{Key: k, Value: v})
	}
	return pairs
}

func load(t testing.TB, db kv.DB, rows []kv.Pair) {
	t.Helper()
	err := db.Update(t.Context(), func(tx kv.Tx) error {
		for _, row := range rows {
			tx.Set(row.Key, row.Value)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A store that an earlier version left behind goes on as if nothing had
// happened: what it holds is there, and can be settled.
func TestStoreOfEarlierVersion(t *testing.T) {
	t.Parallel()
	if *flagGolden {
		writeGolden(t)
	}
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		db := open()
		load(t, db, readGolden(t))
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		f := openFixture(t, open)
		q := f.Queue("q")
		if n, want := f.counts("q"), (fdbpq.Counts{Ready: 4, Leased: 1, Delayed: 1, Bytes: 32_836, Expiring: 1, Remembered: 2}); n != want {
			t.Errorf("there are %+v, expected %+v", n, want)
		}
		if again := f.push("q", fdbpq.NewItem{MsgID: "id"})[0]; !again.Duplicate {
			t.Errorf("a message pushed again: %+v", again)
		}
		var popped fdbpq.Popped
		f.update(func(tx kv.Tx) (err error) {
			popped, err = q.Pop(tx, fdbpq.Selection{Limit: 1, PopID: "pop"})
			return err
		})
		if got := payloads(popped.Items); len(got) != 1 || got[0] != "taken" {
			t.Errorf("a pop repeated gets %q", got)
		}
		f.view(func(r kv.Reader) error {
			page, err := q.List(r, fdbpq.Listing{State: fdbpq.StateLeased, Limit: 10})
			if len(page.Items) != 1 || page.Items[0].Deliveries != 1 {
				t.Errorf("leased are %+v", page.Items)
			}
			return err
		})
		token, err := hex.DecodeString(goldenToken)
		if err != nil {
			t.Fatal(err)
		}
		lease, err := fdbpq.ParseLease("q", token)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.ack(lease); err != nil {
			t.Errorf("a lease of the earlier version: %v", err)
		}
		id, err := fdbpq.ParseID(goldenID)
		if err != nil {
			t.Fatal(err)
		}
		if stored := f.get("q", id); stored == nil || stored.Priority != 7 || string(stored.Payload) != "moved" {
			t.Errorf("the item that was moved is %+v", stored)
		}
		together(time.Hour, f)
		f.sweep()
		popped = f.pop("q", fdbpq.Min, 10)
		var got []string
		for _, item := range popped.Items {
			got = append(got, fmt.Sprintf("%d %s %s", item.Priority, digest(item.Headers), digest(item.Payload)))
		}
		want := []string{"0 headers ready", "0  delayed", "0  32800 bytes, sum 1d81d5fc", "7  moved"}
		if !slices.Equal(got, want) {
			t.Errorf("there is %q, expected %q", got, want)
		}
		dead := f.pop("q-dead", fdbpq.Min, 10).Items
		if len(dead) != 1 || dead[0].Dead == nil || dead[0].Dead.Reason != "poison" || dead[0].Dead.Origin != "q" {
			t.Errorf("dead are %+v", dead)
		}
		if seq := f.push("q", fdbpq.NewItem{})[0].Seq; seq != 9 {
			t.Errorf("the next place is %d, expected 9", seq)
		}
	})
}

// What the golden store's lease and id look like to clients.
const (
	goldenToken = "1501150113fe13fe1506019bce067a8e43cf3a00"
	goldenID    = "FQUVBQHlL-Mr6_n5LQA"
)

// writeGolden makes the golden store anew. Do it for a new format version only.
func writeGolden(t *testing.T) {
	db, err := placeLocal(t)()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	f := newFixture(t, db)
	f.push("q",
		fdbpq.NewItem{Payload: []byte("ready"), Headers: []byte("headers"), MsgID: "id"},
		fdbpq.NewItem{Payload: []byte("mortal"), TTL: time.Minute},
		fdbpq.NewItem{Payload: []byte("delayed"), Delay: time.Minute},
		fdbpq.NewItem{Payload: bytes.Repeat([]byte("much"), 8200)},
	)
	moved := f.pushed("q", 5, "moved")[0]
	f.pushed("q", -1, "leased", "dead", "taken")
	leased := f.leaseOne("q", time.Hour)
	dead := f.leaseOne("q", time.Hour)
	f.update(func(tx kv.Tx) error {
		if _, err := f.Queue("q").Move(tx, moved, 7); err != nil {
			return err
		}
		if _, err := f.Queue("q").Terminate(tx, *dead.Lease, "poison"); err != nil {
			return err
		}
		_, err := f.Queue("q").Pop(tx, fdbpq.Selection{Limit: 1, PopID: "pop"})
		return err
	})
	var text bytes.Buffer
	for _, row := range everything(t, db) {
		fmt.Fprintf(&text, "%x %x\n", row.Key, row.Value)
	}
	if err := os.MkdirAll("testdata", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(golden, text.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Fatalf("written; now the token is %x, the id %s", leased.Lease.Token(), moved)
}

// A store that this version does not understand is left alone.
func TestUnknownFormat(t *testing.T) {
	t.Parallel()
	format := func(version int64) []byte {
		return tuple.AppendString(tuple.AppendInt(nil, version), "id")
	}
	v := tuple.AppendString(nil, "v")
	for what, c := range map[string]struct {
		row  kv.Pair
		says string
	}{
		"a later version":    {kv.Pair{Key: v, Value: format(fdbpq.FormatVersion + 1)}, "a newer program wrote the store"},
		"an earlier version": {kv.Pair{Key: v, Value: format(1)}, "an earlier program wrote the store: it has version 1, and this program reads and writes 2. Export"},
		"an unknown one":     {kv.Pair{Key: v, Value: format(0)}, "version 0"},
		"a damaged version":  {kv.Pair{Key: v, Value: []byte("\x02text\x00")}, "damaged"},
		"a damaged id":       {kv.Pair{Key: v, Value: tuple.AppendInt(nil, fdbpq.FormatVersion)}, "damaged"},
		"an empty version":   {kv.Pair{Key: v, Value: []byte{}}, "damaged"},
		"foreign rows":       {kv.Pair{Key: []byte("somebody's"), Value: []byte("data")}, "no format version"},
	} {
		t.Run(what, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				db := open()
				defer db.Close()
				load(t, db, []kv.Pair{c.row})
				if _, err := fdbpq.Open(t.Context(), db, fdbpq.Options{}); !errors.Is(err, fdbpq.ErrFormat) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("Open returned %v, expected ErrFormat with %q", err, c.says)
				}
				if left := everything(t, db); len(left) != 1 || !bytes.Equal(left[0].Value, c.row.Value) {
					t.Errorf("Open changed the rows to %q", left)
				}
			})
		})
	}
}

// Several processes that make a store at the same time make one, also when they
// do not hear of it.
func TestOpenAtTheSameTime(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		base := open()
		defer base.Close()
		for _, kind := range []fault.Kind{fault.UnknownNever, fault.UnknownDone, fault.UnknownLate, fault.None} {
			err := base.Update(t.Context(), func(tx kv.Tx) error {
				tx.ClearRange([]byte{0}, []byte{0xff})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var second *fdbpq.Store
			db := fault.Wrap(base, fault.Options{Hook: func(_ context.Context, at fault.Point) {
				if at == fault.BeforeCommit && second == nil {
					if second, err = fdbpq.Open(t.Context(), base, fdbpq.Options{}); err != nil {
						t.Error(err)
					}
				}
			}})
			db.FailNext(kind)
			first, err := fdbpq.Open(t.Context(), db, fdbpq.Options{})
			if err != nil {
				t.Fatalf("%v: %v", kind, err)
			}
			db.Release()
			third, err := fdbpq.Open(t.Context(), base, fdbpq.Options{})
			if err != nil {
				t.Fatalf("%v: %v", kind, err)
			}
			if first.ID() != second.ID() || first.ID() != third.ID() || !bytes.Equal(first.Secret(), third.Secret()) {
				t.Errorf("%v: the processes opened %s, %s and %s", kind, first.ID(), second.ID(), third.ID())
			}
		}
	})
}

// Opening is the same the second time.
func TestOpenAgain(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		rows := everything(t, f.base)
		for range 3 {
			other := f.another(0)
			if other.ID() != f.ID() || !bytes.Equal(other.Secret(), f.Secret()) {
				t.Error("another process sees another store")
			}
		}
		if !slices.EqualFunc(rows, everything(t, f.base), func(a, b kv.Pair) bool {
			return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value)
		}) {
			t.Error("opening a store changed it")
		}
		if len(f.Secret()) != 32 || len(f.ID()) != 32 {
			t.Errorf("the secret has %d bytes, the id is %q", len(f.Secret()), f.ID())
		}
	})
}

// What a later version adds to a row can be read, and an item keeps it; a different format of an item or a queue cannot, and says so.
func TestRowsOfLaterVersion(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		db := open()
		defer db.Close()
		f := newFixture(t, db)
		f.configure("q", `{"key_order":true}`)
		f.push("q", fdbpq.NewItem{Payload: []byte("one"), Unique: strings.Repeat("with every element", 30), Key: "key", ResultTTL: time.Minute})
		item, state := f.rows("ik")[0], f.rows("q")[0]
		set := func(row kv.Pair, value []byte) {
			t.Helper()
			load(t, db, []kv.Pair{{Key: row.Key, Value: value}})
		}
		peek := func() (found fdbpq.Popped, err error) {
			err = f.Store.View(t.Context(), func(r kv.Reader) (err error) {
				found, err = f.Queue("q").Peek(r, fdbpq.Selection{Limit: 1})
				return err
			})
			return found, err
		}
		const kept, refused = 1000, 1001
		more := tuple.AppendBytes(tuple.AppendInt(nil, kept), []byte("new"))
		set(item, slices.Concat(item.Value, more))
		set(state, slices.Concat(state.Value, more))
		if found, err := peek(); err != nil || len(found.Items) != 1 || string(found.Items[0].Payload) != "one" {
			t.Errorf("with more elements there is %q, %v", payloads(found.Items), err)
		}
		if err := f.nack(*f.leaseOne("q", time.Minute).Lease, 0); err != nil { // it has a fence of its key, and an attempt
			t.Fatal(err)
		}
		if err := f.giveBack(*f.leaseOne("q", time.Minute).Lease, ""); err != nil {
			t.Fatal(err)
		}
		if item = f.rows("ik")[0]; !bytes.HasSuffix(item.Value, more) {
			t.Errorf("after two leases the item is %q, without the field %q of a later program", item.Value, more)
		}
		set(item, tuple.AppendInt(tuple.AppendInt(bytes.Clone(item.Value), refused), 1))
		if _, err := peek(); err == nil || !strings.Contains(err.Error(), "field 1001") {
			t.Errorf("an item with a field that has to be understood: %v", err)
		}
		set(item, bytes.Replace(item.Value, []byte("one\x00\x15\x01"), []byte("one\x00\x15\x02"), 1))
		if _, err := peek(); err == nil || !strings.Contains(err.Error(), "format 2") {
			t.Errorf("an item of another format: %v", err)
		}
		set(item, item.Value)
		_, rest, err := tuple.ConsumeInt(state.Value)
		if err != nil {
			t.Fatal(err)
		}
		later := fdbpq.StateNewest + 1
		set(state, append(tuple.AppendInt(nil, later), rest...))
		if _, err := peek(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("format %d", later)) {
			t.Errorf("this program reads a queue's state of format %d, and stateNewest in fdbpq/queuestate.go is %d: %v; parseStateHead has to refuse what a later program writes", later, fdbpq.StateNewest, err)
		}
	})
}
