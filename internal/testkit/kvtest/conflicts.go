package kvtest

import (
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Which transactions may commit side by side.
var conflictCases = []testCase{
	{name: "ReadsConflict", run: testReadsConflict},
	{name: "ConflictBeforeRead", run: testConflictBeforeRead},
	{name: "UnreadDoesNotConflict", run: testUnreadDoesNotConflict, countsRuns: true},
	{name: "BlindWrites", run: testBlindWrites, countsRuns: true},
	{name: "BlindWritesInOrder", run: testBlindWritesInOrder},
	{name: "WriteSkew", run: testWriteSkew},
	{name: "PhantomSkew", run: testPhantomSkew},
	{name: "ConflictAnswers", run: testConflictAnswers},
}

// read is a way to read, with the keys that it looks at. The rows are b, d and f, eight bytes each; c, e and g are
// missing.
type read struct {
	name  string
	do    func(tx kv.Tx) error
	sees  string // keys whose change must make the transaction run again, separated by spaces
	blind string // keys whose change must not
}

func get(key string) func(kv.Tx) error {
	return func(tx kv.Tx) error { _, err := tx.Get([]byte(key)); return err }
}

func getAll(keys string) func(kv.Reader) error {
	return func(r kv.Reader) error {
		var all [][]byte
		for _, key := range strings.Split(keys, "") {
			all = append(all, []byte(key))
		}
		_, err := r.GetAll(all)
		return err
	}
}

// scan reads a range and expects certain keys, separated by spaces.
func scan(begin, end string, opts kv.RangeOptions, keys string) func(kv.Reader) error {
	return func(r kv.Reader) error {
		pairs, err := r.Range([]byte(begin), []byte(end), opts)
		if err != nil {
			return err
		}
		var got []string
		for _, pair := range pairs {
			got = append(got, string(pair.Key))
		}
		if strings.Join(got, " ") != keys {
			return &unexpectedKeys{got: got, want: keys}
		}
		return nil
	}
}

// unexpectedKeys is an error in the first run only: reruns see the change.
type unexpectedKeys struct {
	got  []string
	want string
}

func (e *unexpectedKeys) Error() string {
	return fmt.Sprintf("Range returned %q, expected %q", e.got, e.want)
}

// on makes a read of a transaction from a read of its serializable reader.
func on(read func(kv.Reader) error) func(kv.Tx) error {
	return func(tx kv.Tx) error { return read(tx) }
}

// after makes own writes before a read.
func after(writes []op, read func(kv.Tx) error) func(kv.Tx) error {
	return func(tx kv.Tx) error {
		for _, write := range writes {
			write.apply(tx)
		}
		return read(tx)
	}
}

func reads() []read {
	all := kv.RangeOptions{Limit: 100}
	allReverse := kv.RangeOptions{Limit: 100, Reverse: true}
	two := kv.RangeOptions{Limit: 2}
	twoReverse := kv.RangeOptions{Limit: 2, Reverse: true}
	one := kv.RangeOptions{Limit: 1}
	oneReverse := kv.RangeOptions{Limit: 1, Reverse: true}
	// A pair is 9 bytes: the second one reaches the bound.
	tenBytes := kv.RangeOptions{Limit: 100, MaxBytes: 10}
	tenBytesReverse := kv.RangeOptions{Limit: 100, MaxBytes: 10, Reverse: true}

	return []read{
		{"Get a row", get("d"), "d", "b c e f g"},
		{"Get a missing row", get("c"), "c", "b d e f g"},
		{"GetAll", on(getAll("dbe")), "b d e", "c f g"},
		{"Range", on(scan("b", "g", all, "b d f")), "b c d e f", "g"},
		{"Range in reverse", on(scan("b", "g", allReverse, "f d b")), "b c d e f", "g"},
		{"Range, inner bounds", on(scan("c", "f", all, "d")), "c d e", "b f g"},
		{"Range, inner bounds in reverse", on(scan("c", "f", allReverse, "d")), "c d e", "b f g"},
		{"Range without rows", on(scan("c", "d", all, "")), "c", "b d e f g"},
		{"Range without rows in reverse", on(scan("c", "d", allReverse, "")), "c", "b d e f g"},
		{"Range, Limit", on(scan("b", "h", two, "b d")), "b c d", "e f g"},
		{"Range, Limit in reverse", on(scan("b", "h", twoReverse, "f d")), "d e f g", "b c"},
		{"Range, MaxBytes", on(scan("b", "h", tenBytes, "b d")), "b c d", "e f g"},
		{"Range, MaxBytes in reverse", on(scan("b", "h", tenBytesReverse, "f d")), "d e f g", "b c"},
		{"Range, the head", on(scan("c", "h", one, "d")), "c d", "b e f g"},
		{"Range, the tail", on(scan("", "e", oneReverse, "d")), "d", "b c e f g"},
		{"Range, two pages", func(tx kv.Tx) error {
			if err := scan("b", "h", one, "b")(tx); err != nil {
				return err
			}
			return scan("b\x00", "h", one, "d")(tx)
		}, "b c d", "e f g"},
		{"Get a prefetched row", func(tx kv.Tx) error {
			tx.Prefetch([]byte("d"), []byte("f"))
			return get("d")(tx)
		}, "d", "b c e f g"},
		{"GetAll of prefetched rows", func(tx kv.Tx) error {
			tx.Prefetch([]byte("d"), []byte("c"), []byte("f"))
			return getAll("dce")(tx)
		}, "c d e", "b f g"},
		{"Range that was prefetched", func(tx kv.Tx) error {
			tx.PrefetchRange([]byte("b"), []byte("h"), two)
			tx.PrefetchRange([]byte("e"), []byte("h"), one)
			return scan("b", "h", two, "b d")(tx)
		}, "b c d", "e f g"},
		{"Snapshot of what was prefetched", func(tx kv.Tx) error {
			tx.Prefetch([]byte("d"))
			tx.PrefetchRange([]byte("b"), []byte("h"), two)
			if _, err := tx.Snapshot().Get([]byte("d")); err != nil {
				return err
			}
			return scan("b", "h", two, "b d")(tx.Snapshot())
		}, "", "b c d e f g"},
		{"Conflict", func(tx kv.Tx) error { tx.Conflict([]byte("d")); return nil }, "d", "b c e f g"},
		{"Conflict on a missing row", func(tx kv.Tx) error { tx.Conflict([]byte("c")); return nil }, "c", "b d e f g"},

		{"Snapshot", func(tx kv.Tx) error {
			if _, err := tx.Snapshot().Get([]byte("d")); err != nil {
				return err
			}
			if err := getAll("bcf")(tx.Snapshot()); err != nil {
				return err
			}
			if err := scan("b", "h", all, "b d f")(tx.Snapshot()); err != nil {
				return err
			}
			return scan("b", "h", twoReverse, "f d")(tx.Snapshot())
		}, "", "b c d e f g"},
		{"Snapshot and Conflict", func(tx kv.Tx) error {
			tx.Conflict([]byte("f"))
			return scan("b", "h", all, "b d f")(tx.Snapshot())
		}, "f", "b c d e g"},
		{"Snapshot and Get", func(tx kv.Tx) error {
			if err := scan("b", "h", all, "b d f")(tx.Snapshot()); err != nil {
				return err
			}
			return get("d")(tx)
		}, "d", "b c e f g"},
		{"Get and Snapshot", func(tx kv.Tx) error {
			if err := get("d")(tx); err != nil {
				return err
			}
			return scan("b", "h", all, "b d f")(tx.Snapshot())
		}, "d", "b c e f g"},

		// A read of an own Add or Max depends on the store's row.
		{"Get after Add", after([]op{add("d", 1)}, get("d")), "d", "b c e f g"},
		{"Get after Max", after([]op{raise("c", 1)}, get("c")), "c", "b d e f g"},
		{"GetAll after Add", after([]op{add("d", 1)}, on(getAll("cd"))), "c d", "b e f g"},
		{"Range after Add", after([]op{add("c", 1), add("d", 1)}, on(scan("b", "h", two, "b c"))), "b c", "d e f g"},
		// Own rows fill the bound, own clears hide rows: the read depends on the part that lies between.
		{"Limit reached by own rows", after([]op{set("bb", ""), set("ff", "")}, on(scan("b", "h", two, "b bb"))), "b", "c d e f g"},
		{"Limit reached by own rows in reverse", after([]op{set("ff", ""), set("dd", "")}, on(scan("b", "h", twoReverse, "ff f"))), "f g", "b c d e"},
		{"Limit reached by own rows alone", after([]op{set("bb", ""), set("bd", "")}, on(scan("ba", "h", two, "bb bd"))), "ba bc", "b bdd c d e f g"},
		{"Limit reached by own rows alone in reverse", after([]op{set("bb", ""), set("bd", "")}, on(scan("a", "bx", twoReverse, "bd bb"))), "bc bf", "b ba bx c d e f g"},
		{"Limit after an own row", after([]op{set("bb", "")}, on(scan("b", "h", kv.RangeOptions{Limit: 3}, "b bb d"))), "b c d", "e f g"},
		{"Limit after own clear", after([]op{clearKey("b")}, on(scan("b", "h", one, "d"))), "c d", "e f g"},
		{"Limit after own clear in reverse", after([]op{clearKey("f")}, on(scan("b", "h", oneReverse, "d"))), "d e g", "b c"},
		{"Limit beyond own clears", after([]op{clearRange("b", "e"), set("bb", "")}, on(scan("b", "h", two, "bb f"))), "e f", "g"},
		{"own writes elsewhere", after([]op{set("b", "x"), clearRange("e", "h"), add("c", 1)}, get("d")), "d", "b c e f g"},
	}
}

// changes returns all ways to change one of the read's keys.
func changes(key string) []op {
	writes := []op{set(key, "changed"), add(key, 3), raise(key, 1<<30)}
	if key == "b" || key == "d" || key == "f" {
		before := string(key[0]-1) + "\xff" // a range wider than the key, but not touching its neighbours
		writes = append(writes, clearKey(key), clearRange(key, key+"\x00"), clearRange(before, key+"a"))
	}
	return writes
}

var conflictRows = []op{setInteger("b", 5), setInteger("d", 5), setInteger("f", 5)}

// conflict runs r in a transaction, a change before its end, and returns how
// often the transaction's closure ran.
func (f *fixture) conflict(r read, change op) int {
	f.Helper()
	f.start(conflictRows...)
	changed := false
	runs := f.interleave(
		func(tx kv.Tx) error {
			err := r.do(tx)
			if _, unexpected := err.(*unexpectedKeys); unexpected && changed {
				return nil
			}
			return err
		},
		func() error { changed = true; return f.asideDo(change) },
		func(tx kv.Tx) error { tx.Set([]byte("written"), []byte("x")); return nil })
	f.view(func(reader kv.Reader) error { return newModel("written", "x").compareGet(reader, "written") })
	return runs
}

func testReadsConflict(f *fixture) {
	for i, r := range reads() {
		for _, key := range strings.Fields(r.sees) {
			// All kinds of changes for the first kinds of reads, two of them by
			// turns for the others.
			kinds := changes(key)
			if n := len(kinds); i >= 4 {
				kinds = []op{kinds[i%n], kinds[(i+1)%n]}
			}
			for _, change := range kinds {
				if f.conflict(r, change) < 2 {
					f.Errorf("%s: %s was committed meanwhile, and the transaction committed without a rerun", r.name, change)
				}
			}
		}
	}
}

// testConflictBeforeRead: like a read, Conflict fixes the state of the transaction, even before any read.
func testConflictBeforeRead(f *fixture) {
	for _, change := range changes("d") {
		f.start(conflictRows...)
		runs := 0
		f.update(func(tx kv.Tx) error {
			tx.Conflict([]byte("d"))
			if runs++; runs == 1 {
				if err := f.asideDo(change); err != nil {
					return err
				}
			}
			tx.Set([]byte("written"), nil)
			return nil
		})
		if runs < 2 {
			f.Errorf("%s was committed after Conflict(d), and the transaction committed without a rerun", change)
		}
	}
}

func testUnreadDoesNotConflict(f *fixture) {
	for _, r := range reads() {
		for _, key := range strings.Fields(r.blind) {
			change := set(key, "changed")
			f.once(fmt.Sprintf("%s, %s meanwhile", r.name, change), func() int { return f.conflict(r, change) })
		}
	}
	// The keys next to the one that was read, and ranges that end or begin there.
	d := read{"Get", get("d"), "d", ""}
	for _, change := range []op{set("d\x00", ""), set("c\xff", ""), clearRange("a", "d"), clearRange("d\x00", "z"), clearRange("d", "d"), clearRange("z", "a")} {
		f.once(fmt.Sprintf("Get(d), %s meanwhile", change), func() int { return f.conflict(d, change) })
	}
}

// blindWrites are pairs of transactions that only write: both commit, and the
// store ends up as if the second one had run after the first.
var blindWrites = [][2][]op{
	{{set("b", "first")}, {set("b", "second")}},
	{{set("c", "first")}, {clearKey("c")}},
	{{clearKey("b")}, {set("b", "second")}},
	{{set("c", "first")}, {clearRange("a", "z")}},
	{{clearRange("a", "z")}, {set("c", "second")}},
	{{clearRange("a", "e")}, {clearRange("c", "z")}},
	{{add("b", 1)}, {add("b", 2)}},
	{{add("c", 1)}, {add("c", 2)}},
	{{raise("b", 10)}, {raise("b", 7)}},
	{{raise("c", 7)}, {raise("c", 10)}},
	{{add("b", 1)}, {raise("b", 6)}},
	{{raise("b", 9)}, {add("b", 1)}},
	{{setInteger("b", 20)}, {add("b", 1)}},
	{{add("b", 1)}, {setInteger("b", 20)}},
	{{clearKey("b")}, {add("b", 1)}},
	{{clearRange("a", "z")}, {raise("b", 1)}},
	{{setInteger("c", 3), add("d", 1)}, {clearRange("a", "d"), add("c", 4), add("d", 4)}},
	{{set("cc", "new")}, {clearRange("c", "d"), set("c", "x")}},
}

func (f *fixture) blindWrites(first, second []op) int {
	f.Helper()
	f.start(conflictRows...)
	runs := f.interleave(
		func(tx kv.Tx) error {
			for _, write := range second {
				write.apply(tx)
			}
			return nil
		},
		func() error { return f.asideDo(first...) },
		func(tx kv.Tx) error { return nil })
	want := model{}
	want.apply(conflictRows...)
	want.apply(first...)
	want.apply(second...)
	f.view(func(r kv.Reader) error {
		if err := want.compareAll(r); err != nil {
			return fmt.Errorf("%v committed after %v: %w", second, first, err)
		}
		return nil
	})
	return runs
}

func testBlindWrites(f *fixture) {
	for _, pair := range blindWrites {
		f.once(fmt.Sprintf("%v, %v meanwhile", pair[1], pair[0]), func() int { return f.blindWrites(pair[0], pair[1]) })
	}
}

func testBlindWritesInOrder(f *fixture) {
	for _, pair := range blindWrites {
		f.blindWrites(pair[0], pair[1])
	}
}

// testWriteSkew: of two doctors on call one may leave.
func testWriteSkew(f *fixture) {
	leave := func(name string) func(tx kv.Tx) error {
		return func(tx kv.Tx) error {
			values, err := tx.GetAll([][]byte{[]byte("ann"), []byte("bob")})
			if err != nil {
				return err
			}
			if string(values[0]) == "on call" && string(values[1]) == "on call" {
				tx.Set([]byte(name), []byte("at home"))
			}
			return nil
		}
	}
	f.start(set("ann", "on call"), set("bob", "on call"))
	f.interleave(
		leave("ann"),
		func() error { return f.aside(leave("bob")) },
		func(tx kv.Tx) error { return nil })
	f.expectRows("ann", "on call", "bob", "at home")
}

// testPhantomSkew: two transactions look whether a range is empty and insert
// different rows into it.
func testPhantomSkew(f *fixture) {
	for _, reverse := range []bool{false, true} {
		insert := func(key string) func(tx kv.Tx) error {
			return func(tx kv.Tx) error {
				rows, err := tx.Range([]byte("r"), []byte("s"), kv.RangeOptions{Limit: 1, Reverse: reverse})
				if err == nil && len(rows) == 0 {
					tx.Set([]byte(key), []byte("the only one"))
				}
				return err
			}
		}
		f.start()
		f.interleave(
			insert("r1"),
			func() error { return f.aside(insert("r2")) },
			func(tx kv.Tx) error { return nil })
		f.expectRows("r2", "the only one")
	}
}

// testConflictAnswers: a transaction that runs again gives the answers of the
// run that commits, and nothing of the other runs remains.
func testConflictAnswers(f *fixture) {
	f.start(setInteger("n", 1))
	var saw uint64
	runs := f.interleave(
		func(tx kv.Tx) error {
			var err error
			saw, err = readInteger(tx.Get([]byte("n")))
			tx.Set([]byte(fmt.Sprintf("saw %d", saw)), []byte("x"))
			tx.Add([]byte("sum"), 1)
			return err
		},
		func() error { return f.asideDo(add("n", 1)) },
		func(tx kv.Tx) error { tx.Set([]byte("n"), kv.EncodeInteger(saw*10)); return nil })
	if runs < 2 || saw != 2 {
		f.Errorf("the closure ran %d times and read %d at last, expected a rerun that reads 2", runs, saw)
	}
	f.expectRows("n", integer(20), "saw 2", "x", "sum", integer(1))
}
