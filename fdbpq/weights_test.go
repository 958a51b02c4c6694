package fdbpq_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Keys get shares by their weights. Pushes set weights, and an administrator's are
// stronger until they are dropped.
func TestWeights(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority"}`)
		for key, weight := range map[string]int64{"a": 1, "b": 2, "c": 7} {
			f.fill("q", 700, fdbpq.NewItem{Key: key, Payload: []byte(key), Weight: weight})
		}
		f.expectShares(t, 500, map[string]float64{"a": .1, "b": .2, "c": .7})
		f.setKey("q", "c", `{"weight":3}`)
		f.push("q", fdbpq.NewItem{Key: "c", Payload: []byte("c"), Weight: 1000})
		f.expectShares(t, 300, map[string]float64{"a": 1 / 6., "b": 2 / 6., "c": 3 / 6.})
		f.setKey("q", "c", `{"weight":null}`)
		f.push("q", fdbpq.NewItem{Key: "c", Payload: []byte("c"), Weight: 1})
		f.expectShares(t, 200, map[string]float64{"a": .25, "b": .5, "c": .25})
		f.sound()
	})
}

func (f *fixture) expectShares(t *testing.T, pops int, want map[string]float64) {
	t.Helper()
	taken := f.popped("q", pops)
	for key, share := range want {
		if got := float64(count(taken, key)) / float64(pops); math.Abs(got-share) > .05*share+.01 {
			t.Errorf("the key %q got %.3f of %d items, expected %.3f", key, got, pops, share)
		}
	}
}

// A key gets its share and no more, also if it gets items that go before its others, or gets them back.
func TestUrgentItemsGainNoTurns(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"0"}`)
		weights, got := map[string]int{"calm": 3, "urgent": 2, "returns": 5}, make(map[string]int)
		for _, key := range []string{"calm", "urgent", "returns"} {
			f.setKey("q", key, fmt.Sprintf(`{"weight":%d}`, weights[key]))
			f.fill("q", 600, fdbpq.NewItem{Key: key, Priority: 1, HasPriority: true})
		}
		for n := range 600 {
			item := f.leaseOne("q", time.Hour)
			got[item.Key]++
			end := f.ack
			if item.Key == "returns" && n%3 == 0 {
				end = func(lease fdbpq.Lease) error { return f.nack(lease, 0) }
			}
			if err := end(*item.Lease); err != nil {
				t.Fatal(err)
			}
			if n%5 == 0 {
				f.push("q", fdbpq.NewItem{Key: "urgent", HasPriority: true})
			}
		}
		for key, weight := range weights {
			if want := 600 * weight / 10; got[key] < want-3 || got[key] > want+3 {
				t.Errorf("the key %q got %d items, expected %d", key, got[key], want)
			}
		}
		f.sound()
	})
}

// A weight lasts as long as the key has ready items, in whatever class.
func TestWeightsAreForgotten(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"0,100"}`)
		f.push("q", fdbpq.NewItem{Key: "a", Weight: 3, Payload: []byte("a")})
		f.fill("q", 60, fdbpq.NewItem{Key: "a", Payload: []byte("a"), Priority: 100, HasPriority: true})
		f.fill("q", 60, fdbpq.NewItem{Key: "b", Payload: []byte("b"), Priority: 100, HasPriority: true})
		f.popped("q", 1)
		f.expectShares(t, 40, map[string]float64{"a": .75, "b": .25})
		gone := f.push("q", fdbpq.NewItem{Key: "c", Weight: 7})[0].ID
		f.setKey("q", "c", `{"paused":true}`)
		f.popped("q", 1) // the key has no row any more
		f.remove("q", gone)
		f.popped("q", 100)
		f.push("without turns", fdbpq.NewItem{Key: "a", Weight: 3})
		gone = f.push("q", fdbpq.NewItem{Key: "delayed", Weight: 7, Delay: time.Hour})[0].ID
		f.remove("q", gone)
		if n := len(f.rows("fw")); n > 0 {
			t.Errorf("%d weights of keys without items are left", n)
		}
		f.push("q", fdbpq.NewItem{Key: "d", Weight: 7})
		f.configure("q", `{"fair":""}`)
		if n := len(f.rows("fw")); n > 0 {
			t.Errorf("%d weights are left where keys take no turns", n)
		}
	})
}

// However the last ready item of a key goes, the weight goes with it: it does not count for the
// next item.
func TestWeightGoesWithTheLastItem(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *fixture, id fdbpq.ID){
		"removed": func(f *fixture, id fdbpq.ID) { f.remove("q", id) },
		"evicted": func(f *fixture, _ fdbpq.ID) { f.push("q", fdbpq.NewItem{Priority: -1, HasPriority: true}) },
		"expired": func(f *fixture, _ fdbpq.ID) { f.pass(2 * time.Minute); f.sweep() },
		"leased":  func(f *fixture, _ fdbpq.ID) { f.leaseOne("q", time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				f.configure("q", `{"fair":"priority","max_length":1,"overflow":"evict"}`)
				end(f, f.push("q", fdbpq.NewItem{Key: "a", Weight: 7, TTL: time.Minute, Priority: 1, HasPriority: true})[0].ID)
				if info := f.key("q", "a"); info.Ready != 0 || info.Weight != 1 {
					t.Errorf("the key has %d ready items and the weight %d, expected 0 and 1", info.Ready, info.Weight)
				}
				f.sound()
			})
		})
	}
}

// The weight of a push with a delay counts neither at once nor when the item is due, and
// one that the key has from another push stays.
func TestWeightOfDelayedPush(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority"}`)
		f.push("q", fdbpq.NewItem{Key: "a", Weight: 3, Payload: []byte("a")})
		f.fill("q", 60, fdbpq.NewItem{Key: "a", Payload: []byte("a")})
		f.fill("q", 120, fdbpq.NewItem{Key: "b", Payload: []byte("b")})
		f.fill("q", 60, fdbpq.NewItem{Key: "c", Payload: []byte("c"), Weight: 7, Delay: time.Second})
		f.push("q", fdbpq.NewItem{Key: "a", Payload: []byte("a"), Weight: 7, Delay: time.Second})
		f.expectShares(t, 20, map[string]float64{"a": .75, "b": .25})
		f.pass(2 * time.Second)
		f.sweep()
		f.expectShares(t, 50, map[string]float64{"a": .6, "b": .2, "c": .2})
		f.sound()
	})
}

// Pushes that give a key a weight do not have its pops run again, where a key has had one before.
func TestWeightBesidePop(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		f.configure("q", `{"fair":"priority"}`)
		f.setKey("q", "another", `{"weight":2}`)
		f.keyed("q", "a", 0, 3)
		before := f.db.Stats().Reruns
		f.beside(func() { other.push("q", fdbpq.NewItem{Key: "a", Weight: 5}) })
		f.takesNow("q", 1, "a0")
		if n := f.db.Stats().Reruns - before; n > 0 {
			t.Errorf("the pop ran %d times more", n)
		}
		f.sound()
	})
}
