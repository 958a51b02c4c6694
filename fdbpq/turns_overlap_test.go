package fdbpq_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// beside has something happen while the next transaction is about to commit.
func (f *fixture) beside(do func()) {
	f.hook = func(at fault.Point) {
		if at == fault.BeforeCommit {
			f.hook = nil
			do()
		}
	}
}

// Of two pops at the same time one takes the last token, whosever it is.
func TestLastToken(t *testing.T) {
	t.Parallel()
	for config, end := range map[string]fdbpq.End{
		`{"rate":"1/1h"}`: fdbpq.Max, `{"key_rate":"1/1h"}`: fdbpq.Min, `{"key_rate":"1/1h","fair":"priority"}`: fdbpq.Min,
	} {
		eachEngine(t, func(t *testing.T, open func() kv.DB) {
			f := openFixture(t, open)
			other := f.another(0)
			f.configure("q", config)
			f.keyed("q", "a", 0, 1)
			f.pop("q", fdbpq.Min, 1)
			f.pass(2 * time.Hour)
			f.sweep()
			f.keyed("q", "a", 0, 3)
			taken := 0
			f.beside(func() { taken += len(other.pop("q", end, 1).Items) })
			if taken += len(f.pop("q", fdbpq.Min, 1).Items); taken != 1 {
				t.Errorf("%s: two pops took %d items", config, taken)
			}
			f.sound()
		})
	}
}

// A sweep forgets no bucket from which a pop takes a token at the same time.
func TestBucketIsForgottenBesidePop(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		f.configure("q", `{"key_rate":"1/1s"}`)
		f.keyed("q", "a", 0, 3)
		f.takesNow("q", 1, "a0")
		f.pass(3 * time.Minute)
		f.beside(func() { other.takesNow("q", 1, "a1") })
		f.sweep()
		f.keyed("q", "a", -1, 1) // pops look at the key
		f.limited("q", fdbpq.ReasonBlocked, time.Second)
		f.sound()
	})
}

// A bucket is forgotten when it is full, and no earlier.
func TestBucketThatIsNearlyFull(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_rate":"1/10m"}`)
		f.keyed("q", "a", 0, 3)
		f.takesNow("q", 1, "a0")
		for range 9 {
			f.pass(time.Minute)
			f.sweep()
		}
		f.pass(time.Minute - time.Millisecond)
		f.sweep()
		f.keyed("q", "a", -1, 1)
		f.limited("q", fdbpq.ReasonBlocked, time.Millisecond)
	})
}

// A token that a returned delivery gives back is there for a pop at the same time, or for
// the next one.
func TestTokenComesBackBesidePop(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		f.configure("q", `{"key_rate":"1/1h"}`)
		f.keyed("q", "a", 0, 2)
		first := f.leaseOne("q", time.Hour)
		f.beside(func() {
			if _, err := other.returned(*first.Lease); err != nil {
				t.Error(err)
			}
		})
		taken := f.lease("q", fdbpq.Min, 1, time.Hour).Items
		taken = append(taken, f.lease("q", fdbpq.Min, 1, time.Hour).Items...)
		if len(taken) != 1 {
			t.Errorf("pops took %q", payloads(taken))
		}
		f.sound()
	})
}

// A push to a key whose row a pop clears because the key has nothing is not lost, nor is
// the end of a lease, nor that of a pause.
func TestPopClearsRowOfKeyInTurn(t *testing.T) {
	t.Parallel()
	for name, beside := range map[string]func(f *fixture, lease fdbpq.Lease) string{
		"push": func(f *fixture, _ fdbpq.Lease) string {
			f.keyed("q", "b", 0, 1)
			return "b0"
		},
		"end of a lease": func(f *fixture, lease fdbpq.Lease) string {
			if err := f.ack(lease); err != nil {
				f.Error(err)
			}
			return "a0" // a more urgent one
		},
		"end of a pause": func(f *fixture, _ fdbpq.Lease) string {
			f.setKey("q", "c", `{"paused":false}`)
			return "c0"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				other := f.another(0)
				f.configure("q", `{"fair":"priority","key_limit":1}`)
				f.keyed("q", "a", 0, 2)
				lease := *f.leaseOne("q", time.Hour).Lease
				f.keyed("q", "a", -1, 1) // a row of a key that may have no more
				f.remove("q", f.keyed("q", "a", -2, 1)[0])
				b := f.keyed("q", "b", 0, 1)[0] // a row of a key that has nothing
				f.remove("q", b)
				f.keyed("q", "c", 0, 1)
				f.setKey("q", "c", `{"paused":true}`)
				f.keyed("q", "c", -1, 1)
				var want string
				f.beside(func() { want = beside(other, lease) })
				got := payloads(f.lease("q", fdbpq.Min, 5, time.Hour).Items)
				got = append(got, payloads(f.lease("q", fdbpq.Min, 5, time.Hour).Items)...)
				if len(got) != 1 || got[0] != want {
					t.Errorf("pops took %q, expected %q", got, want)
				}
				f.sound()
			})
		})
	}
}

// What lets a key go wakes the pops that wait.
func TestTurnsWakePops(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before string
		change func(*fixture)
		want   []string
	}{
		"the end of a pause": {`{}`, func(f *fixture) { f.setKey("q", "paused", `{"paused":null}`) }, []string{"paused0"}},
		"a limit of a key":   {`{"key_limit":1}`, func(f *fixture) { f.setKey("q", "a", `{"limit":2}`) }, []string{"a1"}},
		"no rate of keys":    {`{"key_rate":"1/1h"}`, func(f *fixture) { f.configure("q", `{"key_rate":""}`) }, []string{"a1", "a2"}},
		"no rate":            {`{"rate":"1/1h"}`, func(f *fixture) { f.configure("q", `{"rate":""}`) }, []string{"a1", "a2"}},
		"turns": {`{"key_limit":1}`, func(f *fixture) {
			f.configure("q", `{"fair":"priority","key_limit":2}`)
			f.sweep()
		}, []string{"a1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				f.configure("q", c.before)
				f.setKey("q", "paused", `{"paused":true}`)
				f.keyed("q", "paused", 9, 1)
				f.keyed("q", "a", 0, 3)
				lease := func(n int) []string { return payloads(f.lease("q", fdbpq.Min, n, time.Hour).Items) }
				if lease(1); name == "the end of a pause" {
					lease(2)
				}
				var arrivals *kv.Watch
				f.update(func(tx kv.Tx) error {
					found, err := f.Queue("q").Lease(tx, fdbpq.Selection{Limit: 5}, time.Hour)
					if len(found.Items) > 0 {
						t.Errorf("pops take %q before", payloads(found.Items))
					}
					arrivals = f.Queue("q").Arrivals(tx)
					return err
				})
				c.change(f)
				select {
				case <-arrivals.Done():
				case <-patience.Late():
					t.Error("no pop that waits was woken")
				}
				if got := lease(5); !slices.Equal(got, c.want) {
					t.Errorf("pops took %q, expected %q", got, c.want)
				}
				f.sound()
			})
		})
	}
}
