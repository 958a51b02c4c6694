package tenants_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/protocol"
)

// world is a store of one tenant, and a clock.
type world struct {
	now    time.Time
	quotas tenants.Quotas
	stored tenants.Usage
	takes  time.Duration // a count
	counts int
	err    error
}

func (w *world) tenants() *tenants.Tenants {
	return tenants.New(tenants.Options{
		Quotas: func(string) tenants.Quotas { return w.quotas },
		Count: func(string) (tenants.Usage, error) {
			w.counts++
			w.now = w.now.Add(w.takes)
			return w.stored, w.err
		},
		Now: func() time.Time { return w.now },
	})
}

func begin() *world { return &world{now: time.Unix(1000, 0)} }

// In a second a tenant has as many requests as its rate, and debts for what was larger.
func TestRate(t *testing.T) {
	t.Parallel()
	w := begin()
	w.quotas.Requests = 10
	one := w.tenants().Of("t")
	served := func(settles bool) (n int) {
		for one.Ask(settles) == nil {
			n++
		}
		return n
	}
	for _, step := range []struct {
		after   time.Duration
		charge  int
		settles bool
		want    int
	}{
		{0, 0, false, 10}, {100 * time.Millisecond, 0, false, 1}, {time.Hour, 0, false, 10}, {time.Second, 25, false, 0}, {time.Second, 0, false, 0},
		{time.Second, 0, false, 5}, {0, 0, true, 10}, {time.Second, 0, false, 0}, {time.Second, 0, false, 10},
	} {
		w.now = w.now.Add(step.after)
		if step.charge > 0 {
			if one.Ask(false) != nil {
				t.Fatal("no request is left for the large one")
			}
			one.Charge(step.charge - 1)
		}
		if got := served(step.settles); got != step.want {
			t.Fatalf("%+v: %d requests", step, got)
		}
	}
	w.quotas.Requests = 0
	for range 1000 {
		if f := one.Ask(false); f != nil {
			t.Fatalf("without a quota: %v", f)
		}
	}
	w.quotas.Requests = 10
	w.now = w.now.Add(time.Second)
	if got := served(false); got < 9 || got > 10 {
		t.Errorf("a new quota lets %d requests through after a second", got)
	}
}

// What was admitted counts until the store has it; what is gone counts until the next count, which comes at once
// where it would matter.
func TestAdmit(t *testing.T) {
	t.Parallel()
	w := begin()
	w.quotas = tenants.Quotas{Items: 10, Bytes: 1000}
	w.stored = tenants.Usage{Items: 4, Bytes: 10}
	w.takes = time.Millisecond
	one := w.tenants().Of("t")
	admit := func(items, bytes int, want protocol.Reason) {
		t.Helper()
		f := one.Admit(items, bytes)
		if f == nil && want != "" || f != nil && f.Reason != want {
			t.Fatalf("admitted %d items with %d bytes: %v, expected %q", items, bytes, f, want)
		}
	}
	admit(6, 1, "")
	admit(1, 1, protocol.ReasonQuotaItems)
	w.now = w.now.Add(time.Minute) // the store has them, and no more were admitted
	w.stored.Items = 10
	admit(1, 1, protocol.ReasonQuotaItems)
	w.stored.Items = 9
	counts := w.counts
	admit(1, 1, protocol.ReasonQuotaItems) // it was counted just now
	if w.counts != counts {
		t.Error("a tenant is counted again at once")
	}
	w.now = w.now.Add(20 * w.takes)
	admit(1, 1, "")
	w.now = w.now.Add(time.Second)
	w.stored = tenants.Usage{Items: 1, Bytes: 999}
	admit(1, 2, protocol.ReasonQuotaBytes)
	admit(1, 1, "")
	w.err = errors.New("the store is away")
	w.now = w.now.Add(time.Minute)
	admit(1, 1, protocol.ReasonQuotaBytes)
}

func TestMaking(t *testing.T) {
	t.Parallel()
	w := begin()
	if making, _ := w.tenants().Of("t").Making(); making != nil {
		t.Error("without a quota there is something to ask")
	}
	w.quotas.Queues = 2
	one := w.tenants().Of("t")
	for i, want := range []bool{true, true, false} {
		making, refused := one.Making()
		err := making()
		if (refused == nil) != want {
			t.Errorf("queue %d is refused: %v", i, refused)
		}
		if (err == nil) != want {
			t.Errorf("queue %d: %v", i, err)
		}
		if err == nil {
			w.stored.Queues++
		}
	}
	w.now = w.now.Add(time.Minute)
	w.stored.Queues = 1
	if _, err := one.Making(); err != nil {
		t.Errorf("one was deleted: %v", err)
	}
}

// Tenants that ask for nothing any more are forgotten.
func TestIdleTenants(t *testing.T) {
	t.Parallel()
	w := begin()
	all := w.tenants()
	all.Of("old")
	w.now = w.now.Add(2 * time.Minute)
	all.Of("new")
	if _, there := all.Counts()["old"]; there || len(all.Counts()) != 1 {
		t.Errorf("known are %v", all.Counts())
	}
}

// Many may ask for one tenant at once, and together get no more than its quota.
func TestAdmitTogether(t *testing.T) {
	t.Parallel()
	const askers = 16
	var stored atomic.Int64
	all := tenants.New(tenants.Options{
		Quotas: func(string) tenants.Quotas { return tenants.Quotas{Items: 100} },
		Count:  func(string) (tenants.Usage, error) { return tenants.Usage{Items: stored.Load()}, nil },
		Now:    func() time.Time { return time.Unix(1, 0) },
	})
	var group sync.WaitGroup
	for range askers {
		group.Go(func() {
			for range 50 {
				if all.OfQueue("t.jobs").Admit(1, 1) == nil {
					stored.Add(1)
				}
			}
		})
	}
	group.Wait()
	if n := stored.Load(); n < 100 || n > 100+askers { // what is under way during two counts
		t.Errorf("%d were admitted", n)
	}
}
