package kvtest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Who owns which slice, and when.
var ownershipCases = []testCase{
	{name: "ReusedBuffers", run: testReusedBuffers},
	{name: "ReusedReadBuffers", run: testReusedReadBuffers},
	{name: "ReturnedSlices", run: testReturnedSlices},
}

// testReusedBuffers writes a transaction through one buffer for keys and one
// for values.
func testReusedBuffers(f *fixture) {
	var want model
	f.update(func(tx kv.Tx) error {
		want = model{}
		key, value := make([]byte, 3), make([]byte, 8)
		for i := range 20 {
			copy(key, fmt.Sprintf("k%02d", i))
			copy(value, fmt.Sprintf("value %02d", i))
			tx.Set(key, value)
			want[string(key)] = string(value)
		}
		copy(key, "k03")
		end := []byte("k06")
		tx.ClearRange(key, end)
		want.apply(clearRange("k03", "k06"))
		copy(end, "k99")
		copy(key, "k08")
		tx.Clear(key)
		want.apply(clearKey("k08"))
		copy(key, "sum")
		tx.Add(key, 3)
		copy(key, "top")
		tx.Max(key, 4)
		scribble(key)
		want.apply(add("sum", 3), raise("top", 4))
		return want.compareAll(tx)
	})
	f.expect(want)
}

// testReusedReadBuffers overwrites the keys of reads. That must not change what the transaction depends on, nor the
// key for which a watch waits.
func testReusedReadBuffers(f *fixture) {
	reads := map[string]func(tx kv.Tx, key []byte) error{
		"Get": func(tx kv.Tx, key []byte) error { _, err := tx.Get(key); return err },
		"GetAll": func(tx kv.Tx, key []byte) error {
			keys := [][]byte{key}
			_, err := tx.GetAll(keys)
			keys[0] = []byte("other")
			return err
		},
		"Range": func(tx kv.Tx, key []byte) error {
			end := append(bytes.Clone(key), 0)
			_, err := tx.Range(key, end, kv.RangeOptions{Limit: 10})
			scribble(end)
			return err
		},
		"Conflict": func(tx kv.Tx, key []byte) error { tx.Conflict(key); return nil },
	}
	for name, read := range reads {
		f.start(set("k", "old"))
		runs := f.interleave(
			func(tx kv.Tx) error {
				key := []byte("k")
				err := read(tx, key)
				scribble(key)
				return err
			},
			func() error { return f.asideDo(set("k", "new")) },
			func(tx kv.Tx) error { tx.Set([]byte("w"), nil); return nil })
		if runs < 2 {
			f.Errorf("%s: the transaction depends on the buffer of the key, not on the key", name)
		}
	}

	var w *kv.Watch
	f.update(func(tx kv.Tx) error {
		key := []byte("k")
		w = tx.Watch(key)
		scribble(key)
		return nil
	})
	f.do(set("k", "newer"))
	f.await(w.Done(), "a watch whose key's buffer was used again")
}

// testReturnedSlices writes into the slices that reads return, and expects no other
// read to see it.
func testReturnedSlices(f *fixture) {
	f.start(set("a", "one"), set("b", "two"), set("c", "three"))
	want := newModel("a", "one", "b", "two", "c", "three", "d", "own")
	check := func(r kv.Reader) ([]kv.Pair, error) {
		kept, err := ruinSlices(r, want)
		if err == nil {
			err = want.compareAll(r)
		}
		return kept, err
	}

	var kept [][]kv.Pair
	keep := func(pairs []kv.Pair, err error) error {
		kept = append(kept, pairs)
		return err
	}
	f.update(func(tx kv.Tx) error {
		tx.Set([]byte("d"), []byte("own"))
		if err := keep(check(tx)); err != nil {
			return err
		}
		return keep(check(tx.Snapshot()))
	})
	f.view(func(r kv.Reader) error { return keep(check(r)) })
	f.expect(want)

	// Returned slices do not change after the transaction.
	f.do(set("a", "ONE"), clearRange("b", "z"), set("e", "five"))
	f.expectRows("a", "ONE", "e", "five")
	for _, pairs := range kept {
		got := model{}
		for _, pair := range pairs {
			got[string(pair.Key)] = string(pair.Value)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			f.Errorf("pairs became %v after the transaction, expected %v", got, want)
		}
	}
}

// ruinSlices writes into the slices of several reads and returns pairs that stay untouched. The reader has the rows
// of want; row a is one.
func ruinSlices(r kv.Reader, want model) ([]kv.Pair, error) {
	opts := kv.RangeOptions{Limit: 10}
	pairs, err := r.Range([]byte("a"), []byte("z"), opts)
	if err != nil {
		return nil, err
	}
	// Appending to one slice must not write into another.
	for i := range pairs {
		_ = append(pairs[i].Key, "####"...)
		_ = append(pairs[i].Value, "####"...)
	}
	for i, pair := range pairs {
		if want[string(pair.Key)] != string(pair.Value) {
			return nil, fmt.Errorf("pair %d became %s=%s when slices next to it grew", i, show(pair.Key), show(pair.Value))
		}
	}
	values, err := r.GetAll([][]byte{[]byte("a"), []byte("d"), []byte("a")})
	if err != nil {
		return nil, err
	}
	scribble(values[0])
	if string(values[2]) != "one" {
		return nil, errors.New("GetAll returned one slice twice")
	}
	for _, value := range values {
		_ = append(value, "####"...)
		scribble(value)
	}
	for range 2 {
		value, err := r.Get([]byte("a"))
		if err != nil {
			return nil, err
		}
		if string(value) != "one" {
			return nil, fmt.Errorf("a became %s when a caller wrote into the slice of an earlier Get", show(value))
		}
		scribble(value)
	}
	kept, err := r.Range([]byte("a"), []byte("z"), opts)
	for _, pair := range pairs {
		scribble(pair.Key)
		scribble(pair.Value)
	}
	return kept, err
}
