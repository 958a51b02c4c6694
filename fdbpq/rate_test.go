package fdbpq_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func TestRateText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "1/1s": "1/1s", "100/1m": "100/1m0s", "1000000/24h": "1000000/24h0m0s", "5/1500ms": "5/1.5s",
	} {
		var r fdbpq.Rate
		if err := r.UnmarshalText([]byte(text)); err != nil || r.String() != want {
			t.Errorf("%q is %q, %v: expected %q", text, r, err, want)
		}
	}
	for _, text := range []string{"1", "1/", "/1s", "0/1s", "-1/1s", "1000001/1s", "1/999ms", "1/25h", "1/1", "x/1s", "1.5/1s", "1/1s/1s", " 1/1s"} {
		var r fdbpq.Rate
		if err := r.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was accepted as %q", text, r)
		}
	}
}

// limited expects that a rate keeps items back, and until when.
func (f *fixture) limited(queue string, reason fdbpq.Reason, retry time.Duration) {
	f.Helper()
	taken := f.pop(queue, fdbpq.Min, 5)
	if len(taken.Items) > 0 || taken.Reason != reason || taken.Retry != retry {
		f.Errorf("a pop took %q, reason %q, retry after %s: expected %q and %s", payloads(taken.Items), taken.Reason, taken.Retry, reason, retry)
	}
}

func (f *fixture) takesNow(queue string, n int, want ...string) {
	f.Helper()
	if got := payloads(f.pop(queue, fdbpq.Min, n).Items); !slices.Equal(got, want) {
		f.Errorf("a pop of %d took %q, expected %q", n, got, want)
	}
}

// A queue's rate allows its number at once, and one more in each part of its time.
func TestRate(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"rate":"3/3s"}`)
		ids := f.pushed("q", 0, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
		f.takesNow("q", 9, "0", "1", "2")
		f.limited("q", fdbpq.ReasonRate, time.Second)
		f.expectWaitsFor("q", ids[4], fdbpq.WaitsForRate)
		if got := f.peek("q", 2); len(got) > 0 {
			t.Errorf("a peek showed %q", got)
		}
		f.pass(time.Second - 1)
		f.limited("q", fdbpq.ReasonRate, 1)
		f.pass(1)
		f.takesNow("q", 9, "3")
		f.pass(time.Hour)
		f.takesNow("q", 2, "4", "5")
		f.takesNow("q", 2, "6")
		f.configure("q", `{"rate":""}`)
		f.takesNow("q", 9, "7", "8", "9")
		f.configure("q", `{"rate":"3/3s"}`)
		f.pushed("q", 0, "last", "of", "all")
		f.takesNow("q", 9, "last", "of", "all")
		if taken := f.pop("q", fdbpq.Min, 1); taken.Reason != fdbpq.ReasonEmpty || taken.Retry != 0 {
			t.Errorf("of an empty queue the reason is %q, retry after %s", taken.Reason, taken.Retry)
		}
	})
}

// Within any time there are no more deliveries than the rate allows, and each token is
// there when it should be: the exact one comes at a fraction, which is not rounded down.
// Times of deliveries are random, and so are their numbers. A purge allows no more.
func TestRateInAnyTime(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		f := openFixture(t, open)
		for _, rate := range []struct {
			n      int
			period time.Duration
		}{{1, time.Second}, {3, time.Second}, {7, 10 * time.Second}, {100, time.Minute}} {
			queue := fmt.Sprint("q", rate.n)
			f.configure(queue, fmt.Sprintf(`{"rate":"%d/%s"}`, rate.n, rate.period))
			var at []time.Duration // of each delivery
			now, tokens := time.Duration(0), float64(rate.n)
			for range 150 {
				if rng.IntN(30) == 0 {
					f.purge(queue)
				}
				f.fill(queue, 10, fdbpq.NewItem{})
				step := time.Duration(rng.Int64N(int64(rate.period) / int64(rate.n) * 3))
				f.pass(step)
				now += step
				tokens = min(float64(rate.n), tokens+float64(rate.n)*float64(step)/float64(rate.period))
				asked := 1 + rng.IntN(5)
				got := len(f.pop(queue, fdbpq.Min, asked).Items)
				if slack := 1e-4; float64(got) > tokens+slack || got < asked && float64(got) < tokens-1-slack {
					t.Fatalf("rate %d/%s: %d of %d items after %s, with %.4f tokens", rate.n, rate.period, got, asked, now, tokens)
				}
				tokens -= float64(got)
				for range got {
					at = append(at, now)
				}
			}
			for i := range at {
				for j := i; j < len(at); j++ {
					allowed := float64(rate.n) + float64(rate.n)*float64(at[j]-at[i])/float64(rate.period)
					if float64(j-i+1) > allowed+1e-6 {
						t.Fatalf("rate %d/%s: %d deliveries in %s", rate.n, rate.period, j-i+1, at[j]-at[i])
					}
				}
			}
			if len(at) < 60 {
				t.Errorf("rate %d/%s: only %d deliveries", rate.n, rate.period, len(at))
			}
		}
	})
}

// The interval of a rate that is no whole number of nanoseconds is rounded up.
func TestRateIsRoundedUp(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"rate":"7/10s"}`)
		f.fill("q", 9, fdbpq.NewItem{Payload: []byte("x")})
		f.takesNow("q", 9, "x", "x", "x", "x", "x", "x", "x")
		f.pass(10 * time.Second / 7)
		f.limited("q", fdbpq.ReasonRate, 1)
		f.pass(1)
		f.takesNow("q", 9, "x")
	})
}

// Another rate keeps the tokens for which it has room.
func TestRateChanges(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.fill("q", 100, fdbpq.NewItem{Payload: []byte("x")})
		take := func(what string, want int) {
			t.Helper()
			if got := len(f.pop("q", fdbpq.Min, 50).Items); got != want {
				t.Errorf("%s: a pop took %d, expected %d", what, got, want)
			}
		}
		f.configure("q", `{"rate":"10/10s"}`)
		f.pop("q", fdbpq.Min, 4)
		f.configure("q", `{"rate":"20/10s"}`)
		take("of six tokens of ten, none more of twenty", 6)
		f.pass(5 * time.Second)
		f.configure("q", `{"rate":"3/10s"}`)
		take("of ten tokens of twenty, three of three", 3)
		f.fill("unused", 100, fdbpq.NewItem{Payload: []byte("x")})
		f.configure("unused", `{"rate":"1/1h"}`)
		f.configure("unused", `{"rate":"20/10s"}`)
		if n := len(f.pop("unused", fdbpq.Min, 50).Items); n != 1 {
			t.Errorf("of the one token of a rate that was never used: a pop took %d", n)
		}
		f.fill("keys", 300, fdbpq.NewItem{Key: "a"})
		f.configure("keys", `{"key_rate":"100/1s"}`)
		f.pop("keys", fdbpq.Min, 100)
		f.configure("keys", `{"key_rate":"100/24h"}`)
		f.pass(3 * time.Minute)
		f.sweep() // which forgets no tokens that are owed by the slower rate
		if n := len(f.pop("keys", fdbpq.Min, 100).Items); n > 0 {
			t.Errorf("a key without tokens got %d items by a slower rate", n)
		}
	})
}

// A delivery that reached nobody gives its token back, and not when another delivery has
// used the time since.
func TestTokensOfReturnedItems(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"rate":"1/10s","key_rate":"1/10s","lease":"1h"}`)
		f.keyed("q", "a", 0, 1)
		first := f.leaseOne("q", time.Hour)
		f.pass(time.Second)
		if _, err := f.returned(*first.Lease); err != nil {
			t.Fatal(err)
		}
		again := f.leaseOne("q", time.Hour)
		if again.ID != first.ID {
			t.Fatal("another item came")
		}
		if err := f.nack(*again.Lease, 0); err != nil {
			t.Fatal(err)
		}
		if taken := f.lease("q", fdbpq.Min, 1, time.Hour); len(taken.Items) > 0 || taken.Reason != fdbpq.ReasonRate {
			t.Errorf("a refused delivery gave its token back: %q, reason %s", payloads(taken.Items), taken.Reason)
		}
		f.configure("q", `{"rate":"2/10s","key_rate":""}`)
		f.pass(time.Hour)
		f.pushed("q", 9, "free", "too")
		first = f.leaseOne("q", time.Hour)
		f.pass(time.Second)
		f.leaseOne("q", time.Hour)
		if _, err := f.returned(*first.Lease); err != nil {
			t.Fatal(err)
		}
		if taken := f.lease("q", fdbpq.Min, 1, time.Hour); len(taken.Items) > 0 {
			t.Errorf("the token of a delivery before another one came back")
		}
		f.sound()
	})
}

// The rate of keys keeps no other key waiting. Its rows go when they say nothing.
func TestKeyRate(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_rate":"2/2s"}`)
		a := f.keyed("q", "a", 0, 5)
		f.keyed("q", "b", 5, 1)
		f.pushed("q", 9, "free")
		f.takesNow("q", 9, "a0", "a1", "b0", "free")
		f.limited("q", fdbpq.ReasonBlocked, time.Second)
		f.expectWaitsFor("q", a[2], fdbpq.WaitsForKeyRate)
		f.sound()
		f.pass(time.Second)
		if got := f.peek("q", 3); !slices.Equal(got, []string{"a2"}) {
			t.Errorf("a peek showed %q", got)
		}
		f.expectWaitsFor("q", a[2], "")
		f.takesNow("q", 9, "a2")
		f.keyed("q", "a", -1, 1)
		f.limited("q", fdbpq.ReasonBlocked, time.Second)
		f.purge("q")
		f.keyed("q", "a", 0, 1)
		f.limited("q", fdbpq.ReasonBlocked, time.Second) // a purge keeps what was delivered
		f.pass(2 * time.Second)
		f.takesNow("q", 9, "a0")
		f.pass(10 * time.Minute)
		f.sweep()
		for _, space := range []string{"kt", "kw"} {
			if n := len(f.rows(space)); n > 0 {
				t.Errorf("%d rows are left in %q", n, space)
			}
		}
	})
}

// Nobody looks again for a key whose time has come and that waits for something else.
func TestNoRetryForPastTokens(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_limit":2,"key_rate":"1/10s"}`)
		f.keyed("q", "a", 0, 3)
		f.leaseOne("q", time.Hour)
		f.configure("q", `{"key_rate":""}`)
		f.leaseOne("q", time.Hour)
		f.pass(time.Minute)
		if got := f.lease("q", fdbpq.Min, 1, time.Hour); got.Reason != fdbpq.ReasonBlocked || got.Retry != 0 {
			t.Errorf("a pop without key_rate says %q, retry after %s", got.Reason, got.Retry)
		}

		f.configure("paused", `{"key_rate":"1/10s"}`)
		f.keyed("paused", "a", 0, 2)
		f.takesNow("paused", 1, "a0")
		f.setKey("paused", "a", `{"paused":true}`)
		f.pass(time.Minute)
		var got fdbpq.Popped
		f.view(func(r kv.Reader) (err error) {
			got, err = f.Queue("paused").Peek(r, fdbpq.Selection{Limit: 1})
			return err
		})
		if got.Reason != fdbpq.ReasonBlocked || got.Retry != 0 {
			t.Errorf("a peek says %q, retry after %s", got.Reason, got.Retry)
		}
	})
}

// A key may wait for a token before a pop has written how long: a peek works it out.
func TestPeekWaitsForTokenOfNewItem(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for queue, config := range map[string]string{"q": `{"key_rate":"1/10s"}`, "fair": `{"key_rate":"1/10s","fair":"priority"}`} {
			f.configure(queue, config)
			f.keyed(queue, "a", 0, 1)
			f.takesNow(queue, 1, "a0")
			f.keyed(queue, "a", 1, 1)
			if n := len(f.rows("kw")); n > 0 {
				t.Fatalf("%s: %d keys have rows that they wait: the test proves nothing", config, n)
			}
			var got fdbpq.Popped
			f.view(func(r kv.Reader) (err error) {
				got, err = f.Queue(queue).Peek(r, fdbpq.Selection{Limit: 1})
				return err
			})
			if got.Reason != fdbpq.ReasonBlocked || got.Retry != 10*time.Second {
				t.Errorf("%s: a peek says %q, retry after %s", config, got.Reason, got.Retry)
			}
		}
	})
}

// A pop that cannot read all waits which are over takes nothing: another key may come first.
func TestLastOfManyRefilledKeysComesFirst(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_rate":"1/1s"}`)
		const keys = 300
		push := func(i int, priority int64) {
			f.push("q", fdbpq.NewItem{Key: fmt.Sprintf("%03d", i), Payload: fmt.Append(nil, i), Priority: priority, HasPriority: true})
		}
		for i := range keys {
			push(i, 0)
			push(i, int64(keys-i)) // the key whose wait is read last has the first item
		}
		for taken := 0; taken < keys; {
			n := len(f.pop("q", fdbpq.Min, 100).Items)
			if taken += n; n == 0 {
				t.Fatalf("pops took %d of the first %d items", taken, keys)
			}
		}
		if n := len(f.rows("kw")); n != keys {
			t.Fatalf("%d keys wait: expected %d", n, keys)
		}
		f.pass(time.Second)
		first := f.pop("q", fdbpq.Min, 1)
		if len(first.Items) > 0 || !first.More {
			t.Errorf("a pop took %d items, more: %t", len(first.Items), first.More)
		}
		if next := f.pop("q", fdbpq.Min, 1); len(next.Items) != 1 || string(next.Items[0].Payload) != fmt.Sprint(keys-1) {
			t.Errorf("the next pop took %+v", next.Items)
		}
	})
}

// More keys than one pop looks at get their tokens at once.
func TestManyKeysGetTokens(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_rate":"1/1s"}`)
		const keys = 600
		for n := range 2 {
			for i := range keys {
				f.push("q", fdbpq.NewItem{Key: fmt.Sprint(i), Payload: fmt.Append(nil, n), Priority: int64(n), HasPriority: true})
			}
		}
		total := 0
		for round := 0; total < 2*keys && round < 50; round++ {
			taken := f.pop("q", fdbpq.Min, 100)
			total += len(taken.Items)
			if len(taken.Items) > 0 || taken.More {
				continue
			}
			if total != keys || taken.Retry != time.Second {
				t.Fatalf("after %d items a pop finds none: %s, retry after %s", total, taken.Reason, taken.Retry)
			}
			f.sound()
			f.pass(time.Second)
		}
		if total != 2*keys {
			t.Errorf("pops took %d of %d items", total, 2*keys)
		}
		f.pass(10 * time.Minute)
		f.sweep()
		f.sweep()
		f.sweep()
		f.sweep()
		if n := len(f.rows("kt")); n > 0 {
			t.Errorf("%d keys have rows of tokens", n)
		}
	})
}

// Where keys take turns, a key waits for tokens out of turn, and comes back without credit.
func TestKeyRateInTurn(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority"}`)
		f.setKey("q", "slow", `{"rate":"1/10s"}`)
		f.fill("q", 10, fdbpq.NewItem{Key: "slow", Payload: []byte("slow")})
		f.fill("q", 20, fdbpq.NewItem{Key: "fast", Payload: []byte("fast")})
		if got := count(f.popped("q", 10), "slow"); got != 1 {
			t.Errorf("the slow key got %d items", got)
		}
		f.sound()
		f.pass(10 * time.Second)
		if got := f.popped("q", 4); count(got, "slow") != 1 {
			t.Errorf("pops took %q", got)
		}
		f.sound()
	})
}

// A key can have a limit, a rate, or a pause of its own, instead of those of its queue.
func TestKeySettings(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_limit":1}`)
		f.keyed("q", "a", 0, 5)
		f.keyed("q", "b", 1, 5)
		f.takes("q", 9, "a0", "b0")
		f.setKey("q", "a", `{"limit":3}`)
		f.takes("q", 9, "a1", "a2")
		f.setKey("q", "b", `{"limit":0}`)
		f.takes("q", 9, "b1", "b2", "b3", "b4")
		f.setKey("q", "a", `{"limit":0,"paused":true}`)
		f.blocked("q")
		info := f.key("q", "a")
		if info.WaitsFor != fdbpq.WaitsForPause || info.Ready != 2 || info.Leased != 3 || info.Limit != 0 {
			t.Errorf("the key is %+v", info)
		}
		f.setKey("q", "a", `{"paused":null,"rate":"1/1s"}`)
		f.takes("q", 9, "a3")
		f.blocked("q")
		if info = f.key("q", "a"); info.WaitsFor != fdbpq.WaitsForKeyRate || info.Retry != time.Second {
			t.Errorf("the key is %+v", info)
		}
		f.sound()
		f.setKey("q", "a", `{"rate":null,"limit":null}`)
		f.blocked("q")
		f.setKey("q", "a", `{"limit":10}`)
		f.takes("q", 9, "a4")
		f.sound()
		f.purge("q")
		if info = f.key("q", "a"); info.Limit != 10 {
			t.Errorf("after a purge the key is %+v", info)
		}
		f.delete("q")
		f.configure("q", `{"key_limit":1}`)
		if info = f.key("q", "a"); info.Limit != 1 || info.Settings != (fdbpq.KeySettings{}) {
			t.Errorf("in a queue made again the key is %+v", info)
		}
	})
}

func (f *fixture) key(queue, key string) (info fdbpq.KeyInfo) {
	f.Helper()
	f.view(func(r kv.Reader) (err error) {
		info, err = f.Queue(queue).Key(r, key)
		return err
	})
	return info
}

// Settings of keys are checked, and need a lease or one end of the queue like those of
// the queue.
func TestKeySettingsRefuse(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, object := range []string{
			`{"limit":-1}`, `{"limit":1001}`, `{"weight":0}`, `{"weight":1001}`, `{"rate":"often"}`, `{"paused":1}`, `{"unknown":1}`, `{"limit":1,"limit":2}`, `[]`, `{"Limit":1}`,
		} {
			err := f.fails(func(tx kv.Tx) error {
				_, err := f.Queue("q").SetKey(tx, "a", []byte(object))
				return err
			})
			var config *fdbpq.ConfigError
			if !errors.As(err, &config) {
				t.Errorf("%s: %v", object, err)
			}
		}
		f.pushed("q", 0, "x")
		f.setKey("q", "a", `{"paused":true}`)
		f.takesNow("q", 1, "x")
		f.setKey("q", "a", `{"limit":1}`)
		if err := f.fails(func(tx kv.Tx) error {
			_, err := f.Queue("q").Pop(tx, fdbpq.Selection{Limit: 1})
			return err
		}); !errors.Is(err, fdbpq.ErrLeaseRequired) {
			t.Errorf("a pop without a lease: %v", err)
		}
		f.setKey("q", "a", `{"limit":null,"paused":null}`)
		f.pushed("q", 0, "y")
		if taken := f.pop("q", fdbpq.Max, 1); len(taken.Items) != 1 {
			t.Error("without settings, pop.max took nothing")
		}
	})
}

// Keys are listed in the order of their bytes, in pages: those with items or settings.
func TestKeysAreListed(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.keyed("q", "b", 0, 2)
		f.keyed("q", "a\"", 0, 1)
		f.keyed("q", "leased", -1, 1)
		f.leaseOne("q", time.Hour)
		f.setKey("q", "set", `{"weight":7}`)
		f.fill("q", 120, fdbpq.NewItem{Key: "many"})
		var got []string
		for after := ""; ; {
			var page []fdbpq.KeyInfo
			f.view(func(r kv.Reader) (err error) {
				page, err = f.Queue("q").Keys(r, after, 2)
				return err
			})
			if len(page) == 0 {
				break
			}
			for _, k := range page {
				own, err := json.Marshal(k.Settings)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s %d %t %d %d %s", k.Key, k.Ready, k.More, k.Leased, k.Weight, own))
				after = k.Key
			}
		}
		want := []string{`a" 1 false 0 1 {}`, "b 2 false 0 1 {}", "leased 0 false 1 1 {}", "many 100 true 0 1 {}", `set 0 false 0 7 {"weight":7}`}
		if !slices.Equal(got, want) {
			t.Errorf("the keys are %q, expected %q", got, want)
		}
	})
}
