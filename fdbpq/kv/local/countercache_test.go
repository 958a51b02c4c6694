package local

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestCounterCache(t *testing.T) {
	t.Parallel()
	c := newCounterCache()
	rng := rand.New(rand.NewPCG(1, 1))
	// All keys fall into two sets, and some share a hash.
	hash := func(k int) uint64 { return uint64(k%2) + counterSets*uint64(k/3) }
	key := func(k int) []byte { return fmt.Append(nil, k) }
	want := map[int]uint64{}
	hits := 0
	for range 20_000 {
		k := rng.IntN(20)
		switch rng.IntN(4) {
		case 0:
			want[k] = rng.Uint64()
			c.put(hash(k), key(k), want[k])
		case 1:
			c.drop(hash(k))
			for o := range want {
				if hash(o) == hash(k) {
					delete(want, o)
				}
			}
		default:
			got, known := c.get(hash(k), key(k))
			if value, ok := want[k]; known && (!ok || got != value) {
				t.Fatalf("key %d: got %d, want %d, %t", k, got, value, ok)
			}
			if known {
				hits++
			}
		}
	}
	if hits < 1000 {
		t.Errorf("only %d hits", hits)
	}
	c.put(1, key(1), 1)
	c.reset()
	if _, known := c.get(1, key(1)); known {
		t.Error("a reset cache remembers")
	}
}
