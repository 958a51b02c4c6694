package fdbpq_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/testenv"
)

var flagServed = flag.Int("pq.served", 600, "items that TestFairOverProcesses serves")

// Four processes pop one queue at the same time, and keys of random weights that have items
// all the time get their shares in the order of the commits: between any two of them, in any
// stretch of that order, the services divided by the weights differ by no more than two items
// of each, and what a batch gets at once.
func TestFairOverProcesses(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 10} {
		eachEngine(t, func(t *testing.T, open func() kv.DB) {
			seed := randomSeed(t)
			rng := rand.New(rand.NewPCG(seed, uint64(batch)))
			f := openFixture(t, open)
			f.configure("q", `{"fair":"priority"}`)
			weights := make(map[string]int64)
			total := int64(0)
			for i := range 12 {
				weight := pick[int64](rng, 1, 1, 2, 3, 7)
				weights[fmt.Sprint("key ", i)] = weight
				total += weight
			}
			for key, weight := range weights {
				n := int(2*int64(*flagServed)*weight/total) + 10*batch
				f.fill("q", n, fdbpq.NewItem{Key: key, Weight: weight, Payload: []byte(key)})
			}
			served := f.popTogether(4, *flagServed, batch)
			worst, off := testenv.Unfairness(served, weights, batch), testenv.WorstShare(served, weights)
			t.Logf("seed %d, batches of %d: %d items served by four processes to keys of the weights %v; the worst difference of two keys is %.2f times 2/w1 + 2/w2, shares are off by %.1f %%",
				seed, batch, len(served), slices.Sorted(maps.Values(weights)), worst, 100*off)
			if worst > 1 || off > .05 {
				t.Errorf("the worst difference is %.2f times 2/w1 + 2/w2, expected 1 at most; a share is off by %.1f %%, expected 5 at most", worst, 100*off)
			}
			f.sound()
		})
	}
}

// A class keeps its time while a key stands in it, also one whose row a pop has read and not
// needed.
func TestTimeOfRowsThatAreRead(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority"}`)
		for _, key := range []string{"a", "b", "c"} {
			f.keyed("q", key, 5, 1)
		}
		f.keyed("q", "c", 5, 2)
		f.takesNow("q", 1, "a0")
		f.setKey("q", "0", `{"paused":true}`)
		f.keyed("q", "0", 5, 1) // its row is the first one, so that the pop reads several
		f.takesNow("q", 1, "b0")
		if n := len(f.rows("fc")); n != 1 {
			t.Errorf("there are %d times of classes, expected that of the class in which a key stands", n)
		}
		f.sound()
	})
}

// popTogether has several processes pop at least n items at the same time, and returns the
// payloads in the order of the commits: each pop depends on the one before.
func (f *fixture) popTogether(processes, n, batch int) []string {
	f.Helper()
	var mu sync.Mutex
	order := make(map[int64][]string) // by the number of the pop
	failed := make(chan error, processes)
	taken := 0
	for range processes {
		p := f.another(0)
		go func() {
			failed <- func() error {
				for {
					var at int64
					var popped fdbpq.Popped
					session := p.Session()
					err := session.Update(f.Context(), func(tx kv.Tx) error {
						row, err := tx.Get([]byte("\x02~pops"))
						if err != nil {
							return err
						}
						at = int64(kv.DecodeInteger(row))
						tx.Set([]byte("\x02~pops"), kv.EncodeInteger(uint64(at+1)))
						popped, err = p.Queue("q").Pop(tx, fdbpq.Selection{Limit: batch})
						return err
					})
					session.Release()
					if err == nil && len(popped.Items) == 0 {
						err = errors.New("nothing is there")
					}
					if err != nil {
						return err
					}
					mu.Lock()
					order[at] = payloads(popped.Items)
					taken += len(popped.Items)
					done := taken >= n
					mu.Unlock()
					if done {
						return nil
					}
				}
			}()
		}()
	}
	for range processes {
		if err := <-failed; err != nil {
			f.Fatal(err)
		}
	}
	var served []string
	for at := range int64(len(order)) {
		if order[at] == nil {
			f.Fatalf("pop %d of %d is missing", at, len(order))
		}
		served = append(served, order[at]...)
	}
	f.update(func(tx kv.Tx) error {
		tx.Clear([]byte("\x02~pops"))
		return nil
	})
	f.pass(time.Second)
	return served
}
