package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// check tests what must always hold of the cache's own structure.
func (c *gapCache) check() error {
	for _, l := range []*gapList{&c.sure, &c.guesses} {
		count, size := 0, 0
		var last []byte
		for _, block := range l.blocks {
			if len(block) == 0 || len(block) > maxGapBlock {
				return fmt.Errorf("a block has %d gaps", len(block))
			}
			for _, g := range block {
				if bytes.Compare(g.begin, g.end) >= 0 || bytes.Compare(g.begin, last) < 0 {
					return fmt.Errorf("gap [%x, %x) follows one that ends at %x", g.begin, g.end, last)
				}
				if c.list(g) != l {
					return fmt.Errorf("gap [%x, %x) is in the wrong list", g.begin, g.end)
				}
				last = g.end
				count++
				size += len(g.begin) + len(g.end)
			}
		}
		if count != l.count || size != l.bytes {
			return fmt.Errorf("%d gaps of %d bytes, counted as %d of %d", count, size, l.count, l.bytes)
		}
	}
	listed, size := 0, c.sure.bytes+c.guesses.bytes
	for g := c.newest; g != nil; g = g.older {
		listed++
	}
	if listed != c.len() || listed > c.limits.count || size > c.limits.bytes {
		return fmt.Errorf("%d of %d gaps listed, %d bytes, expected at most %+v", listed, c.len(), size, c.limits)
	}
	return nil
}

func keysOf(keys ...[]byte) keyList {
	l := keyList{keys: new(keySet)}
	for _, key := range keys {
		i, _ := l.keys.add(hashKey(key), key)
		l.list = append(l.list, i)
	}
	return l
}

// TestGapCacheIsASetOfKeys compares the cache with a list of which keys are
// known to be missing. Keys are even numbers, so that there is room between.
func TestGapCacheIsASetOfKeys(t *testing.T) {
	t.Parallel()
	key := func(i int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(i)) }
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := gapCache{limits: gapLimits{count: 1 << 20, bytes: 1 << 20}}
		const n = 2000
		var missing [n + 1]bool // a key is missing if the number is
		at := &commit{version: 1}
		for step := range 4000 {
			switch rng.IntN(5) {
			case 0, 1:
				from := rng.IntN(n)
				to := min(n, from+1+rng.IntN(40))
				c.record(keyRange{key(from), key(to)}, at)
				for i := from; i < to; i++ {
					missing[i] = true
				}
			case 2:
				var keys [][]byte
				i := rng.IntN(n)
				for range 1 + rng.IntN(5) {
					keys = append(keys, key(i))
					missing[i] = false
					if i += 1 + rng.IntN(20); i >= n {
						break
					}
				}
				c.written(keysOf(keys...), keyList{}, 1)
			case 3:
				from := rng.IntN(n)
				to := from + 1 + rng.IntN(n-from)
				jump, limit, _ := c.forward(key(from), key(to))
				i := from
				for i < to && missing[i] {
					i++
				}
				if want := key(i); bytes.Compare(jump, want) < 0 || bytes.Compare(jump, key(to)) < 0 && !bytes.Equal(jump, want) {
					t.Fatalf("seed %d, step %d: from %x to %x: jump to %x, want %x", seed, step, key(from), key(to), jump, want)
				}
				if bytes.Compare(jump, key(to)) < 0 && (bytes.Compare(limit, key(to)) > 0 || bytes.Compare(limit, jump) <= 0) {
					t.Fatalf("seed %d, step %d: from %x to %x: limit %x after a jump to %x", seed, step, key(from), key(to), limit, jump)
				}
			case 4:
				to := 1 + rng.IntN(n)
				from := rng.IntN(to)
				jump, limit, _ := c.backward(key(to), key(from))
				i := to
				for i > from && missing[i-1] {
					i--
				}
				if bytes.Compare(jump, key(from)) > 0 && (bytes.Compare(jump, key(i)) > 0 || bytes.Compare(jump, append(key(i-1), 0)) < 0) {
					t.Fatalf("seed %d, step %d: back from %x to %x: jump to %x, want %x", seed, step, key(to), key(from), jump, key(i))
				}
				if bytes.Compare(jump, key(from)) > 0 && (bytes.Compare(limit, key(from)) < 0 || bytes.Compare(limit, jump) >= 0) {
					t.Fatalf("seed %d, step %d: back from %x to %x: limit %x after a jump to %x", seed, step, key(to), key(from), limit, jump)
				}
			}
			if err := c.check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
	}
}

func TestGapCacheStopsScansWhereItIsSure(t *testing.T) {
	t.Parallel()
	c := gapCache{limits: defaultGapLimits}
	at := &commit{version: 1}
	record := func(begin, end string) { c.record(keyRange{[]byte(begin), []byte(end)}, at) }
	write := func(key string) { c.written(keysOf([]byte(key)), keyList{}, 2) }
	expect := func(pos, jump, limit, back, low string) {
		t.Helper()
		gotJump, gotLimit, _ := c.forward([]byte(pos), []byte("z"))
		if string(gotJump) != jump || string(gotLimit) != limit {
			t.Errorf("forward from %s: jump to %q, limit %q, want %q and %q", pos, gotJump, gotLimit, jump, limit)
		}
		gotJump, gotLimit, _ = c.backward([]byte(pos), []byte("a"))
		if string(gotJump) != back || string(gotLimit) != low {
			t.Errorf("backward from %s: jump to %q, limit %q, want %q and %q", pos, gotJump, gotLimit, back, low)
		}
	}
	record("f", "k")
	expect("e", "e", "f", "e", "a")
	expect("f", "k", "z", "f", "a")
	expect("k", "k", "z", "f", "a")
	expect("m", "m", "z", "m", "k")
	write("h") // both sides are guesses now
	expect("e", "e", "z", "e", "a")
	expect("f", "h", "z", "f", "a")
	expect("h", "h", "z", "f", "a")
	expect("i", "k", "z", "h\x00", "a")
	expect("m", "m", "z", "m", "a")
	record("h\x00", "i") // one of them is not
	expect("e", "e", "h\x00", "e", "a")
	expect("m", "m", "z", "m", "k")
	record("h", "h\x00") // h is gone again
	expect("e", "e", "f", "e", "a")
	expect("f", "k", "z", "f", "a")
}

func TestGapCacheStaysSmall(t *testing.T) {
	t.Parallel()
	c := gapCache{limits: gapLimits{count: 10, bytes: 300}}
	at := &commit{version: 1}
	gap := func(i int) keyRange { return keyRange{fmt.Appendf(nil, "%06d", 2*i), fmt.Appendf(nil, "%06d", 2*i+1)} }
	for i := range 1000 {
		c.record(gap(i), at)
		if _, _, asOf := c.forward(gap(0).begin, gap(0).end); asOf != 1 {
			t.Fatalf("after %d gaps the one in use is forgotten", i)
		}
		if err := c.check(); err != nil {
			t.Fatal(err)
		}
	}
	c.record(keyRange{make([]byte, 299), make([]byte, 301)}, at)
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	if c.len() != 0 {
		t.Errorf("%d gaps are left beside one that is too large", c.len())
	}
}

// TestGapsNeverHideRows runs transactions at many versions at once, on a store
// full of tombstones and with a cache that remembers whatever it can, and
// compares all they read with a model of their version.
func TestGapsNeverHideRows(t *testing.T) {
	t.Parallel()
	for _, limits := range []gapLimits{
		{count: 1 << 10, bytes: 1 << 20, steps: 1, lookAfter: 1},
		{count: 1 << 10, bytes: 1 << 20, steps: 2, lookAfter: 3},
		{count: 4, bytes: 1 << 20, steps: 1, lookAfter: 2},
		defaultGapLimits,
	} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			for seed := range uint64(2) {
				newGapWorld(t, seed, limits).run(500)
			}
		})
	}
}

type gapWorld struct {
	t    *testing.T
	db   *DB
	rng  *rand.Rand
	rows map[string]string
	open []gapTx
}

// gapTx is a transaction under way and what the store held when it began.
type gapTx struct {
	tx   *tx
	rows map[string]string
}

const gapWorldKeys = 300

func newGapWorld(t *testing.T, seed uint64, limits gapLimits) *gapWorld {
	db := mustOpen(t, Options{FS: vfs.NewMem(), NoSync: true})
	db.gaps.limits = limits
	return &gapWorld{t: t, db: db, rng: rand.New(rand.NewPCG(seed, 2)), rows: map[string]string{}}
}

func (w *gapWorld) key() string { return fmt.Sprintf("%03d", w.rng.IntN(gapWorldKeys)) }

func (w *gapWorld) run(steps int) {
	for range steps {
		switch {
		case w.rng.IntN(3) == 0:
			w.commit()
		case len(w.open) < 8 && w.rng.IntN(2) == 0:
			t := w.db.begin(nil)
			if err := t.open(); err != nil {
				w.t.Fatal(err)
			}
			rows := map[string]string{}
			for k, v := range w.rows {
				rows[k] = v
			}
			w.open = append(w.open, gapTx{t, rows})
		case len(w.open) > 0:
			i := w.rng.IntN(len(w.open))
			if w.rng.IntN(4) == 0 {
				w.write(w.open[i])
			}
			w.read(w.open[i])
			if w.rng.IntN(8) == 0 {
				w.open[i].tx.end()
				w.open = slices.Delete(w.open, i, i+1)
			}
		}
		if err := w.db.gaps.check(); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, o := range w.open {
		o.tx.end()
	}
	if err := w.db.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// commit clears much and sets little, or the other way round.
func (w *gapWorld) commit() {
	err := w.db.Update(context.Background(), func(t kv.Tx) error {
		switch n := w.rng.IntN(gapWorldKeys); w.rng.IntN(5) {
		case 0:
			for i := n; i < min(gapWorldKeys, n+60); i++ {
				w.set(t, w.rows, fmt.Sprintf("%03d", i))
			}
		case 1, 2:
			for i := n; i < min(gapWorldKeys, n+100); i++ {
				w.clear(t, w.rows, fmt.Sprintf("%03d", i))
			}
		case 3:
			w.clearRange(t, w.rows)
		case 4:
			for range 3 {
				w.set(t, w.rows, w.key())
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *gapWorld) set(t kv.Tx, rows map[string]string, key string) {
	value := fmt.Sprint(w.rng.IntN(1000))
	t.Set([]byte(key), []byte(value))
	rows[key] = value
}

func (w *gapWorld) clear(t kv.Tx, rows map[string]string, key string) {
	t.Clear([]byte(key))
	delete(rows, key)
}

func (w *gapWorld) clearRange(t kv.Tx, rows map[string]string) {
	begin, end := w.key(), w.key()
	t.ClearRange([]byte(begin), []byte(end))
	for k := range rows {
		if k >= begin && k < end {
			delete(rows, k)
		}
	}
}

// write lets a transaction write that will not commit.
func (w *gapWorld) write(o gapTx) {
	switch w.rng.IntN(3) {
	case 0:
		w.set(o.tx, o.rows, w.key())
	case 1:
		w.clear(o.tx, o.rows, w.key())
	case 2:
		w.clearRange(o.tx, o.rows)
	}
}

func (w *gapWorld) read(o gapTx) {
	begin, end := w.key(), w.key()
	opts := kv.RangeOptions{Limit: 1 + w.rng.IntN(50), Reverse: w.rng.IntN(2) == 0}
	got, err := o.tx.Range([]byte(begin), []byte(end), opts)
	if err != nil {
		w.t.Fatal(err)
	}
	var want []string
	for k := range o.rows {
		if k >= begin && k < end {
			want = append(want, k)
		}
	}
	slices.Sort(want)
	if opts.Reverse {
		slices.Reverse(want)
	}
	want = want[:min(len(want), opts.Limit)]
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = string(got[i].Key) == want[i] && string(got[i].Value) == o.rows[want[i]]
	}
	if !same {
		w.t.Fatalf("Range(%s, %s, %+v) at version %d of %d: got %q, want %q", begin, end, opts, o.tx.pinned.version, w.db.applied.Load().version, got, want)
	}
}
