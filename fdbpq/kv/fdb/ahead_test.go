//go:build fdb

package fdb

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Whatever is asked for ahead, read and written, a range is given once, as it was asked for,
// and not after a write to it.
func TestAheadRanges(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	key := func(i int) []byte { return fmt.Appendf(nil, "%03d", i) }
	type asked struct{ begin, end, limit int }
	for round := range 300 {
		var ranges aheadRanges
		there := make(map[asked]int) // how often
		var all []asked
		for range 200 {
			begin := rng.IntN(60)
			end := begin + 1 + rng.IntN(1+rng.IntN(20))
			a := asked{begin, end, 1 + rng.IntN(2)}
			switch rng.IntN(5) {
			case 0, 1:
				ranges.add(&aheadRange{begin: key(begin), end: key(end), opts: kv.RangeOptions{Limit: a.limit}})
				there[a]++
				all = append(all, a)
			case 2, 3:
				if len(all) > 0 {
					a = all[rng.IntN(len(all))]
				}
				if _, given := ranges.take(key(a.begin), key(a.end), kv.RangeOptions{Limit: a.limit}); given != (there[a] > 0) {
					t.Fatalf("seed %d, round %d: %+v was given: %t, but was asked for %d times", seed, round, a, given, there[a])
				} else if given {
					there[a]--
				}
			default:
				last := begin
				if rng.IntN(4) == 0 {
					last = end
				}
				ranges.forget(key(begin), key(last))
				for other := range there {
					if other.begin <= last && begin < other.end {
						there[other] = 0
					}
				}
			}
		}
	}
}

// A key is near no other range than its own, however many there are.
func TestAheadRangesNear(t *testing.T) {
	t.Parallel()
	var ranges aheadRanges
	const n = 512
	key := func(i int, behind string) []byte { return fmt.Appendf(nil, "%04d%s", i, behind) }
	for _, i := range rand.Perm(n) {
		ranges.add(&aheadRange{begin: key(i, "a"), end: key(i, "z")})
	}
	for i := range n {
		for behind, want := range map[string]int{"": 0, "a": 1, "k": 1, "z": 0} {
			if near := ranges.near(key(i, behind), key(i, behind)); len(near) != want {
				t.Fatalf("%d ranges near %s, expected %d", len(near), key(i, behind), want)
			}
		}
	}
}
