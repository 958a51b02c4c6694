package local

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
)

// dependency is a key, or a range of keys, that a transaction has read or written.
type dependency struct {
	begin, end []byte // without an end it is a key
}

func (d dependency) String() string { return fmt.Sprintf("%q-%q", d.begin, d.end) }

// meets compares key by key of all that exist here, so that it knows nothing of order.
func (d dependency) meets(o dependency, all [][]byte) bool {
	for _, key := range all {
		if d.has(key) && o.has(key) {
			return true
		}
	}
	return false
}

func (d dependency) has(key []byte) bool {
	if d.end == nil {
		return bytes.Equal(d.begin, key)
	}
	return bytes.Compare(d.begin, key) <= 0 && bytes.Compare(key, d.end) < 0
}

// allKeys are all keys of up to three letters, and what lies directly behind each.
func allKeys(letters string) (keys [][]byte) {
	level := [][]byte{{}}
	for range 4 {
		var next [][]byte
		for _, key := range level {
			for _, letter := range []byte(letters) {
				next = append(next, append(bytes.Clone(key), letter))
			}
		}
		keys = append(keys, level...)
		level = next
	}
	return keys
}

// What a commit changed is compared with what a transaction depends on as if each key were
// compared with each, however many there are on either side and in whatever order they came.
func TestConflictsAreThoseOfEachKey(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	keys := allKeys("\x00abcd")
	sizes := []int{0, 0, 1, 2, 3, 5, 20}
	some := func() int { return sizes[rng.IntN(len(sizes))] }
	conflicts := 0
	const rounds = 5_000
	for range rounds {
		// Within a few letters much meets; otherwise nearly nothing would be free of conflicts.
		near := keys[rng.IntN(len(keys)):]
		near = near[:min(len(near), 1+rng.IntN(len(keys)))]
		of := func() []byte { return near[rng.IntN(len(near))] }
		if rng.IntN(2) == 0 {
			of = func() []byte { return keys[rng.IntN(len(keys))] }
		}
		rangeOf := func() dependency {
			a, b := of(), of()
			if bytes.Compare(a, b) > 0 {
				a, b = b, a
			}
			return dependency{a, append(bytes.Clone(b), 0)}
		}
		var r readSet
		var w writeSet
		var reads, writes []dependency
		for range some() {
			key := of()
			encoded := encodeKey(key)
			r.addKey(hashKey(encoded), encoded)
			reads = append(reads, dependency{begin: key})
		}
		for range some() {
			d := rangeOf()
			r.addRange(encodeKey(d.begin), encodeKey(d.end))
			reads = append(reads, d)
		}
		for range some() {
			key := keys[rng.IntN(len(keys))]
			switch rng.IntN(3) {
			case 0:
				w.set(key, nil)
			case 1:
				w.clear(key)
			default:
				w.atomic(key, atomic64{operand: 1})
			}
			writes = append(writes, dependency{begin: key})
		}
		if rng.IntN(4) == 0 {
			for range some() {
				d := rangeOf()
				w.clearRange(d.begin, d.end)
				writes = append(writes, d)
			}
		}
		want := false
		for _, d := range reads {
			for _, o := range writes {
				want = want || d.meets(o, keys)
			}
		}
		w.sort()
		c := newCommit(&w)
		first := new(commit)
		first.next.Store(c)
		loss, err := first.firstConflict(context.Background(), &r, c)
		if err != nil || (loss != nil) != want {
			t.Fatalf("conflict %t, %v, expected %t: reads %v, writes %v", loss != nil, err, want, reads, writes)
		}
		if want {
			conflicts++
		}
	}
	if conflicts < rounds/10 || conflicts > rounds*9/10 {
		t.Errorf("%d of %d rounds had a conflict", conflicts, rounds)
	}
}

// A comparison looks at each commit after the one pinned, and at none after the last one that
// it is asked for.
func TestConflictsUpToACommit(t *testing.T) {
	t.Parallel()
	var list []*commit
	for i := range 6 {
		var w writeSet
		w.set([]byte{byte('a' + i)}, nil)
		w.sort()
		c := newCommit(&w)
		c.version = uint64(i)
		if i > 0 {
			list[i-1].next.Store(c)
		}
		list = append(list, c)
	}
	for read := range list {
		for from := range list {
			for last := from; last < len(list); last++ {
				var r readSet
				r.addRange([]byte{byte('a' + read)}, []byte{byte('b' + read)})
				loss, err := list[from].firstConflict(context.Background(), &r, list[last])
				want := (*commit)(nil)
				if from < read && read <= last {
					want = list[read]
				}
				if err != nil || loss != want {
					t.Errorf("a read of %d, pinned %d, up to %d: %v, %v", read, from, last, loss, err)
				}
			}
		}
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := list[0].firstConflict(over, new(readSet), list[5]); err == nil {
		t.Error("a comparison goes on without its context")
	}
}
