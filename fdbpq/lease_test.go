package fdbpq_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Late acknowledgements, when the item was not popped since, was popped, or was
// acknowledged by another consumer.
func TestLateSettlement(t *testing.T) {
	t.Parallel()
	settle := map[string]func(*fixture, fdbpq.Lease) error{
		"ack": (*fixture).ack,
		"terminate": func(f *fixture, l fdbpq.Lease) error {
			return f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Terminate(tx, l, "") })
		},
		"nack":       func(f *fixture, l fdbpq.Lease) error { return f.nack(l, 0) },
		"nack later": func(f *fixture, l fdbpq.Lease) error { return f.nack(l, time.Second) },
		"extend": func(f *fixture, l fdbpq.Lease) error {
			return f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Extend(tx, l, time.Minute) })
		},
		"return": func(f *fixture, l fdbpq.Lease) error {
			return f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Return(tx, l) })
		},
	}
	remove := func(f *fixture, l fdbpq.Lease) {
		f.remove("q", l.ID())
	}
	purge := func(f *fixture, l fdbpq.Lease) {
		f.update(func(tx kv.Tx) error {
			_, err := f.Queue("q").Purge(tx)
			return err
		})
	}
	for _, c := range []struct {
		what     string
		happened func(*fixture, fdbpq.Lease)
		late     fdbpq.Lost // what acknowledging answers
		inTime   fdbpq.Lost // what the others answer
	}{
		{"nothing", func(*fixture, fdbpq.Lease) {}, "", ""},
		{"ran out, nobody noticed", func(f *fixture, _ fdbpq.Lease) { f.pass(time.Minute) }, "", fdbpq.LostExpired},
		{"ran out", func(f *fixture, _ fdbpq.Lease) { f.pass(time.Minute); f.sweep() }, "", fdbpq.LostExpired},
		{"given back", func(f *fixture, l fdbpq.Lease) { f.nack(l, 0) }, "", fdbpq.LostReturned},
		{"given back for a while", func(f *fixture, l fdbpq.Lease) { f.nack(l, time.Hour) }, "", fdbpq.LostReturned},
		{"received by nobody", func(f *fixture, l fdbpq.Lease) { f.returned(l) }, "", fdbpq.LostReturned},
		{"given back, moved", func(f *fixture, l fdbpq.Lease) {
			f.nack(l, 0)
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue("q").Move(tx, l.ID(), 9)
				return err
			})
		}, "", fdbpq.LostReturned},
		{"leased again", func(f *fixture, _ fdbpq.Lease) { f.pass(time.Minute); f.sweep(); f.leaseOne("q", time.Minute) }, fdbpq.LostTaken, fdbpq.LostTaken},
		{"leased and returned again", func(f *fixture, _ fdbpq.Lease) {
			f.pass(time.Minute)
			f.sweep()
			f.nack(*f.leaseOne("q", time.Minute).Lease, 0)
		}, fdbpq.LostTaken, fdbpq.LostTaken},
		{"taken for good", func(f *fixture, _ fdbpq.Lease) { f.pass(time.Minute); f.sweep(); f.pop("q", fdbpq.Min, 1) }, fdbpq.LostGone, fdbpq.LostGone},
		{"acknowledged", func(f *fixture, l fdbpq.Lease) { f.ack(l) }, fdbpq.LostGone, fdbpq.LostGone},
		{"removed", remove, fdbpq.LostGone, fdbpq.LostGone},
		{"purged", purge, fdbpq.LostGone, fdbpq.LostGone},
		{"deleted and made again", func(f *fixture, l fdbpq.Lease) {
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue("q").Delete(tx)
				return err
			})
			f.pushed("q", 0, "another")
			f.leaseOne("q", time.Minute)
		}, fdbpq.LostGone, fdbpq.LostGone},
	} {
		t.Run(c.what, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				for name, fn := range settle {
					f.pushed("q", 0, name)
					l := *f.leaseOne("q", time.Minute).Lease
					c.happened(f, l)
					before := f.counts("q")
					err := fn(f, l)
					want := c.inTime
					if name == "ack" || name == "terminate" {
						want = c.late
					}
					var lost *fdbpq.LostError
					switch {
					case want == "" && err != nil:
						t.Errorf("%s: %v", name, err)
					case want != "" && (!errors.As(err, &lost) || lost.Reason != want):
						t.Errorf("%s: %v, expected it to be lost: %s", name, err, want)
					case want != "" && f.counts("q") != before:
						t.Errorf("%s answered %v, and did something", name, err)
					}
					purge(f, l)
				}
			})
		})
	}
}

// A delay out of bounds is refused, and the lease goes on.
func TestNackDelayIsBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "one")
		l := *f.leaseOne("q", time.Hour).Lease
		for _, delay := range []time.Duration{-1, fdbpq.MaxDelay + 1} {
			if err := f.nack(l, delay); err == nil || lost(err) != "" {
				t.Errorf("delay of %v: %v, expected it to be refused", delay, err)
			}
		}
		if err := f.nack(l, fdbpq.MaxDelay); err != nil {
			t.Error(err)
		}
	})
}

// A thousand leases are handed back, reach nobody, or are revoked without counting against the item. Each further one
// that is handed back or reaches nobody is an interruption, and a revocation never is.
func TestReturnsAreBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		id := f.pushed("q", 0, "one")[0]
		end := func(n int) {
			t.Helper()
			lease, err := f.leaseOne("q", time.Hour).Lease, error(nil)
			switch n % 4 {
			case 0:
				_, err = f.returned(*lease)
			case 1:
				err = f.giveBack(*lease, "")
			case 2:
				err = f.giveBack(*lease, "stopped")
			case 3:
				err = f.revoke(id, fdbpq.Revocation{}).Err
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for n := range 1000 {
			end(n)
		}
		if got := f.get("q", id); got.Endings != (fdbpq.Endings{Returns: 750}) || got.Deliveries != 750 {
			t.Fatalf("after 1000 returns: %d deliveries, %+v", got.Deliveries, got.Endings)
		}
		for n := range int64(15) {
			end(int(n % 3))
			end(3)
			if got := f.get("q", id); got.Endings != (fdbpq.Endings{Interruptions: n + 1, Returns: 751 + n}) || got.State != fdbpq.StateReady {
				t.Fatalf("after %d more: %s, %+v", n+1, got.State, got.Endings)
			}
		}
		end(0)
		if dead := f.leaseOne("q-dead", time.Hour).Dead; dead.Reason != fdbpq.DeadInterruptions || dead.Interruptions != 16 || dead.Deliveries != 781 {
			t.Errorf("the dead letter: %+v", dead)
		}
	})
}

// A setting is stored with all of its fields, and stored again is the same.
func TestBackoffSettings(t *testing.T) {
	t.Parallel()
	for given, want := range backoffs {
		for _, text := range []string{given, mustJSON(t, want)} {
			var got fdbpq.Backoff
			if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
				t.Errorf("%s is %q (%v), expected %q", text, got, err, want)
			}
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// grown is a setting without jitter: 1s, 3s, 9s and from then on 20s.
const grown = `{"backoff":{"delay":"1s","factor":3,"max":"20s","jitter":0},"max_deliveries":0}`

func (f *fixture) nackPlain(lease fdbpq.Lease, reason string) error {
	f.Helper()
	return f.settle(func(tx kv.Tx) (fdbpq.Settled, error) {
		return f.Queue(lease.Queue).Nack(tx, lease, fdbpq.Nack{Reason: reason})
	})
}

func (f *fixture) leaseAs(queue, holder string, d time.Duration) (item fdbpq.Item) {
	f.Helper()
	f.update(func(tx kv.Tx) error {
		popped, err := f.Queue(queue).Lease(tx, fdbpq.Selection{Limit: 1, Holders: []string{holder}}, d)
		if err == nil && len(popped.Items) != 1 {
			err = fmt.Errorf("no item: %s", popped.Reason)
		}
		if err == nil {
			item = popped.Items[0]
		}
		return err
	})
	return item
}

func (f *fixture) revoke(id fdbpq.ID, r fdbpq.Revocation) (done fdbpq.Revoked) {
	f.Helper()
	f.update(func(tx kv.Tx) (err error) {
		done, err = f.Queue("q").Revoke(tx, id, r)
		return err
	})
	return done
}

// back is when an item that is delayed is ready again, from now on.
func (f *fixture) back(id fdbpq.ID) time.Duration {
	f.Helper()
	stored := f.get("q", id)
	if stored == nil || stored.State != fdbpq.StateDelayed {
		f.Fatalf("the item is %+v, expected it delayed", stored)
	}
	return time.Duration(stored.Due - f.now())
}

func (f *fixture) attempts(queue string, id fdbpq.ID) []fdbpq.Attempt {
	f.Helper()
	all, err := f.get(queue, id).Attempts.All()
	if err != nil {
		f.Fatal(err)
	}
	return all
}

// Each failure, and each interruption, keeps the item away for as long as the setting says for its number, and a
// leased item says before what a failure would do.
func TestBackoffGrows(t *testing.T) {
	t.Parallel()
	for _, runsOut := range []bool{false, true} {
		eachEngine(t, func(t *testing.T, open func() kv.DB) {
			f := openFixture(t, open)
			f.configure("q", grown)
			id := f.pushed("q", 0, "x")[0]
			for n, want := range []time.Duration{time.Second, 3 * time.Second, 9 * time.Second, 20 * time.Second, 20 * time.Second} {
				item := f.leaseAs("q", "w", time.Minute)
				if says := item.Lease.Backoff; says != want && !(runsOut && says == time.Second) {
					t.Errorf("delivery %d says %s, expected %s", n+1, says, want)
				}
				if !runsOut {
					if err := f.nackPlain(*item.Lease, ""); err != nil {
						t.Fatal(err)
					}
				} else {
					f.pass(time.Minute)
					events := f.sweep()
					if len(events) != 1 || events[0].Type != fdbpq.EventLeaseLost || events[0].Holder != "w" || events[0].NotBefore != f.now()+int64(want) {
						t.Errorf("events %+v, expected that the lease of w was lost, for %s", events, want)
					}
				}
				if got := f.back(id); got != want {
					t.Errorf("delivery %d: back in %s, expected %s", n+1, got, want)
				}
				f.pass(want)
				f.sweep()
			}
		})
	}
}

// A lease that has run out delays its item from its own end, however late the sweep comes.
func TestExpiryDelaysFromTheEndOfTheLease(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"backoff":["10s"]}`)
		id := f.pushed("q", 0, "x")[0]
		f.leaseOne("q", time.Minute)
		f.pass(time.Minute + 4*time.Second)
		f.sweep()
		if got := f.back(id); got != 6*time.Second {
			t.Errorf("swept 4s after the end: back in %s, expected 6s", got)
		}
		f.pass(6 * time.Second)
		f.sweep()
		f.leaseOne("q", time.Minute)
		f.pass(time.Minute + 10*time.Second)
		if events := f.sweep(); len(events) != 1 || events[0].NotBefore != 0 {
			t.Errorf("events %+v, expected a lost lease whose item is ready", events)
		}
		if got := f.get("q", id).State; got != fdbpq.StateReady {
			t.Errorf("swept 10s after the end: %s, expected it ready", got)
		}
	})
}

// A delay that is named wins, also that of nothing: the item is ready at once.
func TestNackWithADelayOfNothing(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"backoff":["10s"]}`)
		id := f.pushed("q", 0, "x")[0]
		if err := f.nack(*f.leaseOne("q", time.Minute).Lease, 0); err != nil {
			t.Fatal(err)
		}
		if got := f.get("q", id).State; got != fdbpq.StateReady {
			t.Errorf("-NAK 0s: %s, expected it ready", got)
		}
		if err := f.nack(*f.leaseOne("q", time.Minute).Lease, 3*time.Second); err != nil {
			t.Fatal(err)
		}
		if got := f.back(id); got != 3*time.Second {
			t.Errorf("-NAK 3s: back in %s", got)
		}
	})
}

// An item that nobody has received is ready at once and remembers no attempt, also when the
// report counts as a delivery.
func TestUnreceivedHasNoBackoff(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"backoff":["10s"]}`)
		id := f.pushed("q", 0, "x")[0]
		for n := range fdbpq.MaxReturns + 2 {
			if _, err := f.returned(*f.leaseAs("q", "w", time.Minute).Lease); err != nil {
				t.Fatal(err)
			}
			if got := f.get("q", id); got.State != fdbpq.StateReady || got.Attempts != "" || got.Holder != "" {
				t.Fatalf("returned %d times: %s with %d attempts, held by %q", n+1, got.State, got.Attempts.Last(), got.Holder)
			}
		}
	})
}

// The last delivery kills an item at once, without a delay.
func TestLastDeliveryHasNoBackoff(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"backoff":["10s"],"max_deliveries":1}`)
		f.pushed("q", 0, "x", "y")
		if err := f.nackPlain(*f.leaseOne("q", time.Minute).Lease, ""); err != nil {
			t.Fatal(err)
		}
		f.leaseOne("q", time.Minute)
		f.pass(time.Minute)
		if events := f.sweep(); len(events) != 2 || events[0].Type != fdbpq.EventLeaseLost || events[0].NotBefore != 0 || events[1].Type != fdbpq.EventDead {
			t.Errorf("events %+v, expected a lost lease, not back, and a death", events)
		}
		f.has("after one delivery each", map[string]int64{"q-dead": 2})
	})
}

// The holder of a lease that was taken away has lost it for good: none of its settlements takes
// effect, not even an acknowledgement of an item that nobody has leased since.
func TestRevokedHolderHasLostItsLease(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"backoff":["10s"]}`)
		id := f.pushed("q", 0, "x")[0]
		lease := *f.leaseAs("q", "w", time.Minute).Lease
		noFence := func(when string) {
			t.Helper()
			if done := f.revoke(id, fdbpq.Revocation{Fence: lease.Fence + 2}); !errors.Is(done.Err, fdbpq.ErrNoFence) {
				t.Errorf("%s with a fence beyond the item's: %v, expected that no lease has had it", when, done.Err)
			}
		}
		noFence("leased")
		f.pass(5 * time.Second)
		done := f.revoke(id, fdbpq.Revocation{Fence: lease.Fence, Delay: new(10 * time.Second), Reason: "it\nhangs"})
		if done.Err != nil || done.State != fdbpq.StateDelayed || done.Deliveries != 1 || len(done.Events) != 1 ||
			done.Events[0].Type != fdbpq.EventRevoked || done.Events[0].Holder != "w" {
			t.Errorf("revoked: %+v", done)
		}
		if got := f.back(id); got != 10*time.Second {
			t.Errorf("back in %s, expected 10s", got)
		}
		settlements := map[string]func(kv.Tx) (fdbpq.Settled, error){
			"ack":       func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Ack(tx, lease) },
			"nack":      func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Nack(tx, lease, fdbpq.Nack{}) },
			"extend":    func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Extend(tx, lease, time.Minute) },
			"return":    func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Return(tx, lease) },
			"terminate": func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Terminate(tx, lease, "") },
		}
		for name, settle := range settlements {
			var lost *fdbpq.LostError
			if err := f.settle(settle); !errors.As(err, &lost) || lost.Reason != fdbpq.LostTaken {
				t.Errorf("%s: %v, expected %s", name, err, fdbpq.LostTaken)
			}
		}
		if done := f.revoke(id, fdbpq.Revocation{}); !errors.Is(done.Err, fdbpq.ErrNotLeased) {
			t.Errorf("revoked again: %v, expected that it is not leased", done.Err)
		}
		noFence("revoked")
		if done := f.revoke(id, fdbpq.Revocation{Fence: lease.Fence + 1}); !errors.Is(done.Err, fdbpq.ErrNotLeased) {
			t.Errorf("the fence that the revoke has left: %v, expected that it is not leased", done.Err)
		}
		if done := f.revoke(id, fdbpq.Revocation{Fence: lease.Fence}); !errors.As(done.Err, new(*fdbpq.LostError)) {
			t.Errorf("revoked again: %v, expected that the lease is lost", done.Err)
		}
		all := f.attempts("q", id)
		if len(all) != 1 || all[0].Outcome != fdbpq.OutcomeRevoked || all[0].Holder != "w" || all[0].Reason != "it hangs" || all[0].End.Sub(all[0].Start) != 5*time.Second {
			t.Errorf("attempts %+v", all)
		}
		f.pass(10 * time.Second)
		f.sweep()
		if next := f.leaseOne("q", time.Minute).Lease; next.Fence != lease.Fence+2 {
			t.Errorf("the next fence is %d after %d and a revocation", next.Fence, lease.Fence)
		}
	})
}

// The attempts of an item go with it when it dies, whatever it dies of, and when it is requeued.
// Their numbers count on.
func TestAttemptsGoWithTheItem(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, dies := range []string{"max_deliveries", "interruptions", "ttl", "terminated"} {
			f.configure("q", `{"max_deliveries":2,"max_interruptions":1,"dead_letter_expired":true}`)
			id := f.push("q", fdbpq.NewItem{TTL: time.Hour})[0].ID
			first := f.leaseAs("q", "w1", time.Minute)
			if err := f.nackPlain(*first.Lease, "broken"); err != nil {
				t.Fatal(err)
			}
			want := []fdbpq.Outcome{fdbpq.OutcomeNack}
			switch dies {
			case "max_deliveries":
				if err := f.nackPlain(*f.leaseAs("q", "w2", time.Minute).Lease, ""); err != nil {
					t.Fatal(err)
				}
				want = append(want, fdbpq.OutcomeNack)
			case "interruptions":
				f.leaseAs("q", "w2", time.Minute)
				f.pass(time.Minute)
				want = append(want, fdbpq.OutcomeExpired)
			case "ttl":
				f.pass(time.Hour)
			case "terminated":
				if err := f.terminate(*f.leaseAs("q", "w2", time.Minute).Lease); err != nil {
					t.Fatal(err)
				}
				want = append(want, fdbpq.OutcomeTerminated)
			}
			f.sweep()
			dead := f.leaseAs("q-dead", "w3", time.Minute)
			if err := f.nackPlain(*dead.Lease, ""); err != nil {
				t.Fatal(err)
			}
			want = append(want, fdbpq.OutcomeNack)
			done := f.requeue("q-dead", dead.ID, "")
			if done.Err != nil || !done.Found {
				t.Fatalf("requeue: %+v", done)
			}
			all := f.attempts("q", done.ID)
			if len(all) != len(want) || all[0].Holder != "w1" || all[0].Reason != "broken" {
				t.Fatalf("%s: attempts %+v, expected %s", dies, all, want)
			}
			for n, a := range all {
				if a.N != int64(n+1) || a.Outcome != want[n] {
					t.Errorf("%s: attempt %+v, expected %d, %s", dies, a, n+1, want[n])
				}
			}
			if f.get("q", id) != nil {
				t.Errorf("%s: the first item is there", dies)
			}
			f.purge("q")
		}
	})
}

// An item remembers its last attempts, up to a number and up to a size.
func TestAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_deliveries":0}`)
		id := f.pushed("q", 0, "x")[0]
		fail := func(times int, holder, reason string) {
			for range times {
				if err := f.nackPlain(*f.leaseAs("q", holder, time.Minute).Lease, reason); err != nil {
					t.Fatal(err)
				}
			}
		}
		expect := func(what string, first, last int) {
			t.Helper()
			all := f.attempts("q", id)
			if len(all) != last-first+1 || all[0].N != int64(first) || all[len(all)-1].N != int64(last) {
				t.Errorf("%s: attempts %d to %d, expected %d to %d", what, all[0].N, all[len(all)-1].N, first, last)
			}
		}
		fail(20, "", "")
		expect("20 attempts", 5, 20)
		fail(20, strings.Repeat("h", fdbpq.MaxHolder), strings.Repeat("€", 1000))
		expect("with the longest texts", 32, 40) // each counts 128+128+198 bytes of 4096
		f.configure("q", `{"attempts":2}`)
		fail(1, "", "")
		expect("attempts 2", 40, 41)
		f.configure("q", `{"attempts":0}`)
		fail(1, "", "")
		if stored := f.get("q", id); stored.Attempts != "" {
			t.Errorf("attempts 0: %d", stored.Attempts.Last())
		}
	})
}

// An item of the largest size, inline and in rows of its own, is delivered and returned with all
// the attempts that it may have.
func TestLargestItemsWithAttempts(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_deliveries":0}`)
		for _, size := range []int{2 << 10, 32 << 10, fdbpq.MaxContent} {
			content := bytes.Repeat([]byte{0}, size)
			id := f.push("q", fdbpq.NewItem{Payload: content, Key: strings.Repeat("k", fdbpq.MaxKey), Unique: "u" + strings.Repeat("\x00", fdbpq.MaxUnique-1)})[0].ID
			for range 20 {
				item := f.leaseAs("q", strings.Repeat("h", fdbpq.MaxHolder), time.Minute)
				if !bytes.Equal(item.Payload, content) {
					t.Fatalf("%d bytes came back as %d", size, len(item.Payload))
				}
				if err := f.nackPlain(*item.Lease, strings.Repeat("r", 1000)); err != nil {
					t.Fatal(err)
				}
			}
			if n := f.get("q", id).Attempts.Last(); n != 20 {
				t.Errorf("the last attempt is %d, expected 20", n)
			}
			popped := f.pop("q", fdbpq.Min, 1)
			if len(popped.Items) != 1 || !bytes.Equal(popped.Items[0].Payload, content) {
				t.Errorf("%d bytes were not popped", size)
			}
		}
	})
}

// Many items with many attempts fit into the transaction of one batch.
func TestBatchesWithAttempts(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		all := make([]fdbpq.Attempt, fdbpq.MaxAttempts)
		for i := range all {
			all[i] = fdbpq.Attempt{N: int64(i + 1), End: time.Unix(1_800_000_000, 0), Outcome: fdbpq.OutcomeNack, Reason: strings.Repeat("r", 100)}
		}
		items := make([]fdbpq.Import, 2000)
		for i, id := range f.fillIDs("other", len(items)) {
			items[i] = fdbpq.Import{ID: id, Payload: make([]byte, 2000), Attempts: all}
		}
		for chunk := range 20 {
			f.imports("q", items[chunk*100:(chunk+1)*100]...)
		}
		for left := len(items); left > 0; {
			leased := f.lease("q", fdbpq.Min, fdbpq.MaxBatch, time.Minute)
			if len(leased.Items) == 0 {
				t.Fatalf("leased nothing (%s), %d are left", leased.Reason, left)
			}
			left -= len(leased.Items)
		}
		f.pass(time.Minute)
		f.sweep()
		if n := f.counts("q"); n.Ready != int64(len(items)) {
			t.Errorf("%d items are back, expected %d", n.Ready, len(items))
		}
	})
}

// fillIDs are those of n items of a queue.
func (f *fixture) fillIDs(queue string, n int) (ids []fdbpq.ID) {
	f.Helper()
	for len(ids) < n {
		for _, pushed := range f.push(queue, make([]fdbpq.NewItem, 500)...) {
			ids = append(ids, pushed.ID)
		}
	}
	return ids
}
