package kvtest

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// crooked is a reader that falsifies answers.
type crooked struct {
	kv.Reader
	get    func([]byte) []byte
	getAll func([][]byte) [][]byte
	pairs  func([]kv.Pair, kv.RangeOptions) []kv.Pair
}

func (r crooked) Get(key []byte) ([]byte, error) {
	value, err := r.Reader.Get(key)
	if r.get != nil {
		value = r.get(value)
	}
	return value, err
}

func (r crooked) GetAll(keys [][]byte) ([][]byte, error) {
	values, err := r.Reader.GetAll(keys)
	if r.getAll != nil {
		values = r.getAll(values)
	}
	return values, err
}

func (r crooked) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	pairs, err := r.Reader.Range(begin, end, opts)
	if r.pairs != nil {
		pairs = r.pairs(pairs, opts)
	}
	return pairs, err
}

// The model refuses each kind of false answer, and takes the true ones.
func TestModelRefusesFalseAnswers(t *testing.T) {
	t.Parallel()
	m := newModel("a", "1", "b", "", "c", "3")
	gets := func(key string) func(kv.Reader) error {
		return func(r kv.Reader) error { return m.compareGet(r, key) }
	}
	for _, c := range []struct {
		name    string
		reader  crooked
		compare func(kv.Reader) error
		want    string // "": no error
	}{
		{"a value", crooked{}, gets("a"), ""},
		{"an empty value", crooked{}, gets("b"), ""},
		{"no value", crooked{}, gets("x"), ""},
		{"all rows", crooked{}, m.compareAll, ""},
		{"nil for an empty value", crooked{get: func([]byte) []byte { return nil }}, gets("b"), "got nil"},
		{"an empty value for none", crooked{get: func([]byte) []byte { return []byte{} }}, gets("x"), "expected nil"},
		{"another value", crooked{get: func([]byte) []byte { return []byte("2") }}, gets("a"), "expected \"1\""},
		{"a value too many", crooked{getAll: func(v [][]byte) [][]byte { return append(v, nil) }}, gets("a"), "returned 2 values"},
		{"another value among several", crooked{getAll: func(v [][]byte) [][]byte { return [][]byte{[]byte("2")} }}, gets("a"), "value 0"},
		{"another key", crooked{pairs: func(p []kv.Pair, _ kv.RangeOptions) []kv.Pair {
			p[0].Key = []byte("aa")
			return p
		}}, m.compareAll, "pair 0 is"},
		{"another value in a range", crooked{pairs: func(p []kv.Pair, _ kv.RangeOptions) []kv.Pair {
			p[0].Value = []byte("2")
			return p
		}}, m.compareAll, "value of \"a\""},
		{"a nil value", crooked{pairs: func(p []kv.Pair, _ kv.RangeOptions) []kv.Pair {
			p[1].Value = nil
			return p
		}}, m.compareAll, "a nil value"},
		{"a row too few", crooked{pairs: func(p []kv.Pair, _ kv.RangeOptions) []kv.Pair { return p[:2] }}, m.compareAll, "is missing"},
		{"a row too many", crooked{pairs: func(p []kv.Pair, _ kv.RangeOptions) []kv.Pair { return append(p, p[0]) }}, m.compareAll, "too much"},
		{"a wrong answer from the end alone", crooked{pairs: func(p []kv.Pair, opts kv.RangeOptions) []kv.Pair {
			if opts.Reverse {
				slices.Reverse(p)
			}
			return p
		}}, m.compareAll, "Reverse:true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.reader.Reader = m
			refused(t, c.compare(c.reader), c.want)
		})
	}
}

// refused checks whether a judge's error has a text, or is none when there is no text.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused a true answer: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want one with %q", err, want)
	}
}

// A look refuses rows that no transaction writes and values of others, and records which
// rows it saw and which it did not: none beyond its limit.
func TestLooks(t *testing.T) {
	t.Parallel()
	writers := map[string]int{"a/1": 0, "a/2": 1, "a/3": 2}
	all := look{begin: "a/", end: "a0", opts: kv.RangeOptions{Limit: 10}}
	first, last := all, all
	first.opts.Limit, last.opts = 1, kv.RangeOptions{Limit: 1, Reverse: true}
	for _, c := range []struct {
		name        string
		look        look
		rows        model
		own         []string
		want        string // error
		saw, missed []int
	}{
		{"all", all, model{"a/2": "1"}, nil, "", []int{1}, []int{0, 2}},
		{"the first one", first, model{"a/2": "1"}, nil, "", []int{1}, []int{0}},
		{"the last one", last, model{"a/2": "1"}, nil, "", []int{1}, []int{2}},
		{"a key", look{keys: []string{"a/2"}}, model{"a/2": "1"}, nil, "", []int{1}, nil},
		{"two keys", look{keys: []string{"a/2", "a/3"}}, model{"a/2": "1"}, nil, "", []int{1}, []int{2}},
		{"a foreign row", all, model{"a/4": "1"}, nil, "no transaction writes", nil, nil},
		{"a value of another one", all, model{"a/2": "2"}, nil, "expected that of its writer", nil, nil},
		{"a key with a value of another one", look{keys: []string{"a/2"}}, model{"a/2": "2"}, nil, "expected that of its writer", nil, nil},
		{"an own row that is missing", all, model{}, []string{"a/2"}, "expected to see an own write", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var e insertEvent
			err := c.look.do(c.rows, writers, c.own, &e)
			if refused(t, err, c.want); c.want != "" {
				return
			}
			slices.Sort(e.missed)
			if !slices.Equal(e.saw, c.saw) || !slices.Equal(e.missed, c.missed) {
				t.Errorf("saw %v and missed %v, want %v and %v", e.saw, e.missed, c.saw, c.missed)
			}
		})
	}
}

// Each reason for an order of two transactions is an arrow.
func TestArrows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events []insertEvent
		want   [][]int
	}{
		"saw":              {[]insertEvent{{begin: 1, end: 9}, {begin: 1, end: 9, saw: []int{0, 1}}}, [][]int{{1}, nil}},
		"missed":           {[]insertEvent{{begin: 1, end: 9}, {begin: 1, end: 9, missed: []int{0, 1}}}, [][]int{nil, {0}}},
		"ended before":     {[]insertEvent{{begin: 3, end: 4}, {begin: 1, end: 2}}, [][]int{nil, {0}}},
		"at the same time": {[]insertEvent{{begin: 1, end: 3}, {begin: 2, end: 4}}, [][]int{nil, nil}},
	} {
		if got := arrows(c.events); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: arrows %v, want %v", name, got, c.want)
		}
	}
}

// The shortest cycle is found, of any length, and none where there is none.
func TestShortestCycle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		next [][]int
		want int
	}{
		"none":                    {[][]int{{1, 2}, {2}, nil}, 0},
		"two":                     {[][]int{{1}, {0}}, 2},
		"three, then two":         {[][]int{{1}, {2}, {0}, {4}, {3}}, 2},
		"two, then three":         {[][]int{{1}, {0}, {3}, {4}, {2}}, 2},
		"three with a way behind": {[][]int{{1}, {2}, {0, 3}, nil}, 3},
	} {
		cycle := shortestCycle(c.next)
		if len(cycle) != c.want {
			t.Errorf("%s: cycle %v, want one of %d", name, cycle, c.want)
		}
		for i, node := range cycle {
			if to := cycle[(i+1)%len(cycle)]; !slices.Contains(c.next[node], to) {
				t.Errorf("%s: %v has no arrow from %d to %d", name, cycle, node, to)
			}
		}
	}
}

// judged returns what a part of the suite says against a fixture.
func judged(t *testing.T, judge func(*recorder)) string {
	t.Helper()
	r := &recorder{TB: t}
	r.run(func() { judge(r) })
	return strings.Join(r.failures, "\n")
}

// A replay refuses histories that no order explains, and returns the state behind others.
func TestReplayRefusesHistories(t *testing.T) {
	t.Parallel()
	write := func(base uint64, begin, end int64, seen ...observation) recordedTx {
		return recordedTx{begin: begin, end: end, base: base, wrote: true, seen: seen}
	}
	read := func(base uint64, begin, end int64) recordedTx { return recordedTx{begin: begin, end: end, base: base} }
	saw := func(result string) observation { return observation{step{keys: []string{"a"}}, result} }
	put := set("a", "1")
	for name, c := range map[string]struct {
		history []recordedTx
		want    string
	}{
		"one after the other":                    {[]recordedTx{write(0, 1, 2, observation{step: step{write: &put}}), write(1, 3, 4, saw(` "1"`)), read(2, 5, 6)}, ""},
		"two on one state":                       {[]recordedTx{write(0, 1, 4), write(0, 2, 3)}, "committed twice or not at all"},
		"a state that is missing":                {[]recordedTx{write(0, 1, 2), read(2, 3, 4)}, "committed twice or not at all"},
		"a value of nobody":                      {[]recordedTx{write(0, 1, 2, saw(` "1"`))}, "read \"1\""},
		"an old state":                           {[]recordedTx{write(0, 1, 2), read(0, 3, 4)}, "although one had ended before"},
		"two readers of one state, in any order": {[]recordedTx{read(0, 3, 4), read(0, 1, 2)}, ""},
	} {
		got := judged(t, func(r *recorder) {
			state := (&fixture{TB: r}).replay(c.history)
			if want := newModel("a", "1", "seq", string(kv.EncodeInteger(2))); c.want == "" && len(c.history) == 3 && !reflect.DeepEqual(state, want) {
				r.Errorf("state %v", state)
			}
		})
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: said %q, want %q", name, got, c.want)
		}
	}
}

// crookedDB is an engine that answers falsely in some places.
type crookedDB struct {
	kv.DB
	view   func(kv.Reader) kv.Reader
	update func(kv.Tx) kv.Tx
	close  error
}

type crookedTx struct {
	kv.Tx
	reads crooked
}

func (tx crookedTx) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	return tx.reads.Range(begin, end, opts)
}

func (db *crookedDB) View(ctx context.Context, fn func(kv.Reader) error) error {
	return db.DB.View(ctx, func(r kv.Reader) error {
		if db.view != nil {
			r = db.view(r)
		}
		return fn(r)
	})
}

func (db *crookedDB) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return db.DB.Update(ctx, func(tx kv.Tx) error {
		if db.update != nil {
			tx = db.update(tx)
		}
		return fn(tx)
	})
}

func (db *crookedDB) Close() error { return errors.Join(db.DB.Close(), db.close) }

// The suite looks at the whole content in the end, at what transactions read that write,
// and at the error of Close.
func TestSuiteRefusesEngines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		engine crookedDB
		test   func(*fixture)
		want   string
	}{
		"a row is missing at the end of a replay": {crookedDB{view: func(r kv.Reader) kv.Reader {
			return crooked{Reader: r, pairs: func(p []kv.Pair, opts kv.RangeOptions) []kv.Pair {
				if opts.Limit == math.MaxInt32 && len(p) > 0 {
					p = p[1:]
				}
				return p
			}}
		}}, testReplay, "pair 0 is"},
		"a transaction that writes reads false sums": {crookedDB{update: func(tx kv.Tx) kv.Tx {
			return crookedTx{tx, crooked{Reader: tx, pairs: func(p []kv.Pair, _ kv.RangeOptions) []kv.Pair {
				for i := range p {
					p[i].Value = kv.EncodeInteger(kv.DecodeInteger(p[i].Value) + 1)
				}
				return p
			}}}
		}}, testBank, "the accounts hold"},
		"a store that cannot be closed": {crookedDB{close: errors.New("no end")}, func(*fixture) {}, "no end"},
		"a sound engine":                {crookedDB{}, testBank, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := judged(t, func(r *recorder) {
				c.engine.DB = newReference(none, 0)
				c.test(newFixture(r, Harness{Open: func(testing.TB) kv.DB { return &c.engine }}))
			})
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("the suite said %q, want %q", got, c.want)
			}
		})
	}
}
