package fdbpq_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// fences collects the fences of the leases of a key, in the order of the leases.
type fences struct {
	f    *fixture
	key  string
	last int64
}

// lease leases the next item of the queue, which is of the key, and expects a higher fence.
func (s *fences) lease(by *fixture) fdbpq.Item {
	s.f.Helper()
	item := by.leaseOne("q", time.Minute)
	if item.Key != s.key || item.Lease.KeyFence <= s.last {
		s.f.Fatalf("the key %q has the fence %d after %d, expected a higher one of the key %q", item.Key, item.Lease.KeyFence, s.last, s.key)
	}
	s.last = item.Lease.KeyFence
	return item
}

// done leases the next item and acknowledges it.
func (s *fences) done(by *fixture) {
	s.f.Helper()
	if err := by.ack(*s.lease(by).Lease); err != nil {
		s.f.Fatal(err)
	}
}

// forgotten expects that the store keeps nothing of keys that have nothing.
func (f *fixture) forgotten() {
	f.Helper()
	if n := len(f.rows("kf")); n > 0 {
		f.Fatalf("%d fences of keys are left", n)
	}
}

// Fences of a key grow over all of its leases: those of one item and of others, where one
// lease ran out, when time stands still, when nothing was there for long, and after a purge
// and a delete. A store that has no use for a fence forgets it.
func TestKeyFences(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		s := fences{f: f, key: "a"}
		order := func() { f.configure("q", `{"key_order":true}`) }
		order()
		for range 3 { // at one moment
			f.keyed("q", "a", 0, 2)
			s.done(f)
			s.done(f)
		}
		f.keyed("q", "a", 0, 2)
		first := s.lease(f)
		if err := f.nack(*first.Lease, 0); err != nil {
			t.Fatal(err)
		}
		again := s.lease(f)
		if again.ID != first.ID {
			t.Fatalf("leased %s after %s", again.Payload, first.Payload)
		}
		f.pass(time.Minute + time.Second) // it runs out
		f.sweep()
		s.done(f)
		s.lease(f)
		for _, end := range []func(){
			func() { f.purge("q") },
			func() { f.delete("q"); order() },
			func() { f.delete("q"); f.collectGarbage(); order() },
			func() { f.purge("q"); f.pass(time.Hour); f.sweep(); f.forgotten() },
			func() {
				f.delete("q")
				f.collectGarbage()
				f.pass(time.Hour)
				f.sweep()
				f.forgotten()
				order()
			},
		} {
			end()
			f.keyed("q", "a", 0, 2)
			s.done(f)
			s.lease(f)
		}
		f.sound()
	})
}

// Processes disagree about the time by a little, and crashes take back what was not written
// of it. Fences grow nevertheless.
func TestKeyFencesBesideClocks(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		s := fences{f: f, key: "a"}
		f.configure("q", `{"key_order":true}`)
		f.keyed("q", "a", 0, 20)
		ahead := f
		for range 4 {
			f.clock.advance(900 * time.Millisecond)
			s.done(ahead) // no process has written this time
			s.done(other)
			// The next one knows only what was written, and by its wall clock no time has passed.
			ahead = f.next(-time.Hour)
			if got := ahead.now(); got/1000 > s.last {
				t.Fatalf("the process that starts is not behind: %d, the last fence is %d", got/1000, s.last)
			}
			s.done(ahead)
			ahead.sweep()
		}
		f.sound()
	})
}

// A fence is forgotten when the time that was written has passed it, and not before: the
// estimate of a process may be ahead of what others will see.
func TestKeyFenceIsKept(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		s := fences{f: f, key: "a"}
		f.configure("q", `{"key_order":true}`)
		f.keyed("q", "a", 0, 4)
		f.clock.advance(time.Minute)
		s.done(f)
		f.clock.advance(time.Minute) // which nobody writes
		f.sweep()
		if n := len(f.rows("kf")); n != 1 {
			t.Fatalf("%d fences are kept, expected one", n)
		}
		other := f.next(-time.Hour)
		s.done(other)
		other.pass(10 * time.Minute)
		other.sweep()
		other.forgotten()
		s.done(other)
		f.clock.advance(time.Minute) // the time that was written is that of the fence
		other.sweep()
		s.done(other.next(-2 * time.Hour))
	})
}

// Many keys are forgotten, and a few that have to be kept hold up nobody.
func TestManyKeyFencesAreForgotten(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		const keys = 700
		f.configure("q", `{"key_order":true}`)
		late := f.now()/1000 + int64(time.Hour/time.Microsecond)
		far := make([]fdbpq.Import, 300)
		for i := range far {
			id := f.pushed("elsewhere", 0, "")[0]
			far[i] = fdbpq.Import{ID: id, Key: fmt.Sprintf("key %04d, far ahead", i), KeyFence: late}
		}
		for _, done := range f.imports("q", far...) {
			if done.Err != nil {
				t.Fatal(done.Err)
			}
		}
		f.purge("q")
		for i := range keys {
			f.keyed("q", fmt.Sprintf("key %04d", i), 0, 1)
		}
		if n := len(f.lease("q", fdbpq.Min, keys, time.Hour).Items); n < 256 {
			t.Fatalf("leased %d items", n)
		}
		for range 8 {
			f.pass(30 * time.Second)
			f.sweep()
		}
		if n := len(f.rows("kf")); n < len(far) || n > len(far)+1 { // the other one is where it goes on
			t.Errorf("%d fences are kept, expected those %d that time has not passed", n, len(far))
		}
		f.sound()
		f.pass(2 * time.Hour)
		for range 3 {
			f.sweep()
			f.pass(30 * time.Second)
		}
		f.forgotten()
	})
}

// The leases that have a fence of their key are those of keys of which one item is leased
// at a time.
func TestWhichLeasesHaveKeyFences(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, c := range []struct {
			config, key, settings string
			want                  bool
		}{
			{`{"key_order":true}`, "a", ``, true},
			{`{"key_order":true,"fair":"priority"}`, "a", ``, true},
			{`{"key_order":true}`, "a", `{"limit":5}`, true},
			{`{"key_limit":1}`, "a", ``, true},
			{`{}`, "a", `{"limit":1}`, true},
			{`{"key_limit":1}`, "a", `{"limit":2}`, false},
			{`{"key_limit":2}`, "a", ``, false},
			{`{}`, "a", ``, false},
			{`{"key_order":true}`, "", ``, false},
		} {
			f.configure("q", c.config)
			if c.settings != "" {
				f.setKey("q", c.key, c.settings)
			}
			f.push("q", fdbpq.NewItem{Key: c.key})
			before := len(f.rows("kf"))
			item := f.leaseOne("q", time.Minute)
			if got := item.Lease.KeyFence > 0; got != c.want {
				t.Errorf("%s, key %q with %s: the fence is %d, expected one: %t", c.config, c.key, c.settings, item.Lease.KeyFence, c.want)
			}
			if after := len(f.rows("kf")); after != before && !c.want {
				t.Errorf("%s, key %q with %s: the store keeps a fence that no lease has", c.config, c.key, c.settings)
			}
			stored := f.get("q", item.ID)
			if stored.KeyFence != item.Lease.KeyFence {
				t.Errorf("%s: get shows the fence %d, the lease has %d", c.config, stored.KeyFence, item.Lease.KeyFence)
			}
			f.delete("q")
			f.pass(time.Minute)
			f.sweep()
		}
	})
}

// A lease that no holder may share keeps its fence: in an extension, in a repeated pop, and
// when the item has come back. A lease without one shows none, and neither does a dead
// letter.
func TestKeyFenceOfALease(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_order":true}`)
		f.keyed("q", "a", 0, 1)
		sel := fdbpq.Selection{Limit: 1, PopID: "id"}
		var leases []fdbpq.Lease
		for range 2 {
			f.update(func(tx kv.Tx) error {
				popped, err := f.Queue("q").Lease(tx, sel, time.Minute)
				if err == nil {
					leases = append(leases, *popped.Items[0].Lease)
				}
				return err
			})
			f.pass(time.Second)
		}
		f.update(func(tx kv.Tx) error {
			settled, err := f.Queue("q").Extend(tx, leases[0], time.Hour)
			if err == nil {
				leases = append(leases, *settled.Lease)
			}
			return err
		})
		for _, l := range leases {
			if l.KeyFence == 0 || l.KeyFence != leases[0].KeyFence {
				t.Errorf("the lease has the fences %d and then %d", leases[0].KeyFence, l.KeyFence)
			}
		}
		if err := f.nack(leases[0], 0); err != nil {
			t.Fatal(err)
		}
		if got := f.get("q", leases[0].ID()); got.KeyFence != leases[0].KeyFence {
			t.Errorf("get shows the fence %d, the last lease had %d", got.KeyFence, leases[0].KeyFence)
		}
		f.configure("q", `{"key_order":false,"max_deliveries":3}`)
		second := f.leaseOne("q", time.Minute)
		if got := f.get("q", second.ID).KeyFence; second.Lease.KeyFence != 0 || got != 0 {
			t.Errorf("a lease without order has the fence %d, get shows %d", second.Lease.KeyFence, got)
		}
		if err := f.nack(*second.Lease, 0); err != nil {
			t.Fatal(err)
		}
		f.configure("q", `{"key_order":true}`)
		third := f.leaseOne("q", time.Minute)
		if third.Lease.KeyFence <= leases[0].KeyFence {
			t.Errorf("in order again the lease has the fence %d, an earlier one had %d", third.Lease.KeyFence, leases[0].KeyFence)
		}
		if err := f.nack(*third.Lease, 0); err != nil {
			t.Fatal(err)
		}
		f.view(func(r kv.Reader) error {
			page, err := f.Queue("q-dead").List(r, fdbpq.Listing{Limit: 1})
			if len(page.Items) != 1 || page.Items[0].KeyFence != 0 || page.Items[0].Key != "a" {
				t.Errorf("the dead letters are %+v", page.Items)
			}
			return err
		})
	})
}

// An imported item brings its fence along: later leases of the key are above it, in a store
// whose time is far behind as well.
func TestImportedKeyFence(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_order":true}`)
		id := f.pushed("elsewhere", 0, "")[0]
		fence := f.now()/1000 + int64(time.Hour/time.Microsecond)
		for _, bad := range []fdbpq.Import{
			{ID: id, KeyFence: 1}, {ID: id, Key: "a", KeyFence: -1},
			{ID: id, Key: "a", KeyFence: f.now()/1000 + int64((fdbpq.MaxDelay+time.Hour)/time.Microsecond)},
		} {
			if done := f.imports("q", bad)[0]; !errors.Is(done.Err, fdbpq.ErrKey) {
				t.Errorf("an import with the fence %d of the key %q: %v", bad.KeyFence, bad.Key, done.Err)
			}
		}
		f.forgotten()
		if done := f.imports("q", fdbpq.Import{ID: id, Key: "a", KeyFence: fence}); done[0].Err != nil {
			t.Fatal(done[0].Err)
		}
		if got := f.get("q", id); got.KeyFence != fence {
			t.Errorf("the imported item has the fence %d, expected %d", got.KeyFence, fence)
		}
		s := fences{f: f, key: "a", last: fence}
		s.done(f)
		f.pass(time.Minute)
		f.sweep()
		f.keyed("q", "a", 0, 1)
		s.done(f)
		low := f.pushed("elsewhere", 0, "")[0]
		f.imports("q", fdbpq.Import{ID: low, Key: "a", KeyFence: 7})
		s.done(f)
	})
}
