package tenants_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
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

// admit admits what one transaction adds, which ends at once.
func admit(one *tenants.Tenant, items, bytes int) *failure.Failure {
	to := one.Open()
	defer to.End()
	return to.Admit(items, bytes)
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
	expect := func(items, bytes int, want protocol.Reason) {
		t.Helper()
		f := admit(one, items, bytes)
		if f == nil && want != "" || f != nil && f.Reason != want {
			t.Fatalf("admitted %d items with %d bytes: %v, expected %q", items, bytes, f, want)
		}
	}
	expect(6, 1, "")
	expect(1, 1, protocol.ReasonQuotaItems)
	w.now = w.now.Add(time.Minute) // the store has them, and no more were admitted
	w.stored.Items = 10
	expect(1, 1, protocol.ReasonQuotaItems)
	w.stored.Items = 9
	counts := w.counts
	expect(1, 1, protocol.ReasonQuotaItems) // it was counted just now
	if w.counts != counts {
		t.Error("a tenant is counted again at once")
	}
	w.now = w.now.Add(100 * w.takes)
	expect(1, 1, "")
	w.stored.Items = 10
	for range 3 {
		counts = w.counts
		w.now = w.now.Add(time.Second)
		expect(1, 1, protocol.ReasonQuotaItems)
	}
	if n := w.counts - counts; n != 1 {
		t.Errorf("a tenant that gets nothing is counted %d times for one request", n)
	}
	w.now = w.now.Add(time.Second)
	w.stored = tenants.Usage{Items: 1, Bytes: 999}
	expect(1, 2, protocol.ReasonQuotaBytes)
	expect(1, 1, "")
	w.err = errors.New("the store is away")
	w.now = w.now.Add(time.Minute)
	expect(1, 1, protocol.ReasonQuotaBytes)
}

// Results that a transaction keeps count from its last run on, and until a count that began after it.
func TestKeeping(t *testing.T) {
	t.Parallel()
	var nobody *tenants.Tenant
	w := begin()
	all := w.tenants()
	for _, to := range []*tenants.Admission{nobody.Open(), all.Of("t").Open()} {
		to.ToKeep(5)
		if to.Keeping() != nil {
			t.Error("without a quota there is something to ask")
		}
	}
	w.quotas.Bytes, w.stored.Bytes = 1000, 400
	w.takes = time.Millisecond
	to := all.Of("t").Open()
	counts := w.counts
	if to.ToKeep(0); w.counts != counts {
		t.Error("the tenant is counted for nothing")
	}
	for i, bytes := range []int{600, 600, 601} { // there was no count, it fits, it seems too much
		if to.ToKeep(bytes); w.counts != counts+1+i/2 {
			t.Errorf("step %d: the tenant was counted %d times", i, w.counts-counts)
		}
		w.now = w.now.Add(time.Second / 5)
	}
	for run := range 3 {
		if run == 2 {
			to.Undo() // of all that it has taken
		}
		keeps := to.Keeping()
		for _, bytes := range []int{601, 400, 201, 200, 1, 0} {
			if got, want := keeps(bytes), bytes == 400 || bytes == 200 || bytes == 0; got != want {
				t.Errorf("run %d: %d bytes may be kept: %t", run, bytes, got)
			}
		}
	}
	refused := func(when string, bytes int) {
		t.Helper()
		if f := admit(all.Of("t"), 0, bytes); f == nil || f.Reason != protocol.ReasonQuotaBytes {
			t.Errorf("%s %d bytes: %v", when, bytes, f)
		}
	}
	refused("while they are under way", 1)
	w.now = w.now.Add(time.Minute)
	refused("while they are under way, and counted again", 1)
	to.End()
	refused("behind them, and not counted again", 1)
	w.stored.Bytes = 990
	w.now = w.now.Add(time.Minute)
	refused("behind them, and counted again", 11)
	if f := admit(all.Of("t"), 0, 10); f != nil {
		t.Errorf("what is left: %v", f)
	}
	if n := all.Counts()["t"].Refused[protocol.ReasonQuotaBytes]; n != 4 {
		t.Errorf("%d requests are refused, expected 4: a result is none", n)
	}
}

func TestMaking(t *testing.T) {
	t.Parallel()
	w := begin()
	if making, _ := w.tenants().Of("t").Open().Making(); making != nil {
		t.Error("without a quota there is something to ask")
	}
	w.quotas.Queues = 2
	one := w.tenants().Of("t")
	for i, want := range []bool{true, true, false} {
		to := one.Open()
		making, refused := to.Making()
		err := making()
		if again := making(); i < 2 && again != nil {
			t.Errorf("queue %d, when the transaction runs again: %v", i, again)
		}
		to.End()
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
	if _, err := one.Open().Making(); err != nil {
		t.Errorf("one was deleted: %v", err)
	}
}

// Tenants that ask for nothing any more are forgotten, but not while they owe requests or something of theirs is under way.
func TestIdleTenants(t *testing.T) {
	t.Parallel()
	w := begin()
	w.quotas = tenants.Quotas{Requests: 10, Items: 10}
	all := w.tenants()
	known := func(asks string, want ...string) {
		t.Helper()
		w.now = w.now.Add(2 * time.Minute)
		all.Of(asks)
		if got := slices.Sorted(maps.Keys(all.Counts())); !slices.Equal(got, want) {
			t.Errorf("known are %v, expected %v", got, want)
		}
	}
	all.Of("old")
	all.Of("owes").Charge(10 * 200) // the requests of 200 seconds
	all.Of("answered").Share.Owe(10*200, 0)
	adds := all.Of("adds").Open()
	if f := adds.Admit(10, 0); f != nil {
		t.Fatal(f)
	}
	lists := all.Of("lists")
	lists.Begin(5, func(*failure.Failure) {})
	known("new", "adds", "answered", "lists", "new", "owes")
	if f := admit(all.Of("adds"), 1, 0); f == nil {
		t.Error("what is under way is forgotten")
	}
	adds.End()
	lists.End(5)
	w.now = w.now.Add(2 * time.Minute)
	known("newer", "newer")
}

// A client that may choose among the names of tenants makes the bridge remember few of them.
func TestManyTenants(t *testing.T) {
	t.Parallel()
	w := begin()
	w.quotas = tenants.Quotas{Requests: 10}
	all := w.tenants()
	all.Of("owes").Charge(10 * 200) // the requests of 200 seconds
	for i := range 50_000 {
		w.now = w.now.Add(time.Millisecond)
		if f := all.Of(fmt.Sprint("tenant", i)).Ask(false); f != nil {
			t.Fatal(f)
		}
	}
	known := all.Counts()
	if len(known) > 5000 {
		t.Errorf("%d tenants are known", len(known))
	}
	if _, is := known["owes"]; !is {
		t.Error("a tenant that owes requests is forgotten")
	}
}

// What was admitted counts as long as its transaction is under way, however often the tenant is counted meanwhile: the store may not
// have it yet.
func TestAdmitUntilTheEnd(t *testing.T) {
	t.Parallel()
	w := begin()
	w.quotas, w.stored = tenants.Quotas{Items: 10, Queues: 2}, tenants.Usage{Items: 9, Queues: 1}
	one := w.tenants().Of("t")
	slow := one.Open()
	making, _ := slow.Making()
	if f, err := slow.Admit(1, 1), making(); f != nil || err != nil {
		t.Fatalf("the last item: %v, the last queue: %v", f, err)
	}
	refused := func(when string) {
		t.Helper()
		for range 3 {
			w.now = w.now.Add(time.Minute)
			if admit(one, 1, 1) == nil {
				t.Errorf("an item too many is admitted %s", when)
			}
			if _, refused := one.Open().Making(); refused == nil {
				t.Errorf("a queue too many is admitted %s", when)
			}
		}
	}
	refused("while the last one is under way")
	w.stored = tenants.Usage{Items: 10, Queues: 2}
	slow.End()
	refused("behind the last one")
	w.stored = tenants.Usage{Items: 9, Queues: 1}
	w.now = w.now.Add(time.Minute)
	if f := admit(one, 1, 1); f != nil {
		t.Errorf("one item has left: %v", f)
	}
}

// How long what has left counts: a hundred times as long as a count takes by itself, whatever has delayed one.
func TestRestBetweenCounts(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		queues int64
		takes  []time.Duration // counts
		rests  time.Duration
	}{
		"usual":                  {1000, []time.Duration{5 * ms, 5 * ms}, 500 * ms},
		"small":                  {10, []time.Duration{ms / 10, ms / 10}, 10 * ms},
		"one was delayed":        {10, []time.Duration{ms / 10, 30 * ms}, 100 * ms},
		"the first was delayed":  {10, []time.Duration{30 * ms}, 500 * ms},
		"all are delayed":        {10, []time.Duration{time.Second, time.Second, time.Second}, 500 * ms},
		"many queues":            {10_000, []time.Duration{50 * ms, 50 * ms}, 5 * time.Second},
		"many queues, and delay": {10_000, []time.Duration{50 * ms, time.Second}, 5 * time.Second},
	} {
		w := begin()
		w.quotas, w.stored = tenants.Quotas{Items: 10}, tenants.Usage{Items: 10, Queues: test.queues}
		one := w.tenants().Of("t")
		for _, w.takes = range test.takes {
			w.now = w.now.Add(time.Minute)
			admit(one, 1, 1)
		}
		w.stored.Items, w.takes = 0, 0
		w.now = w.now.Add(test.rests - ms)
		if admit(one, 1, 1) == nil {
			t.Errorf("%s: the tenant is counted before %s", name, test.rests)
		}
		w.now = w.now.Add(ms)
		if f := admit(one, 1, 1); f != nil {
			t.Errorf("%s: what has left counts after %s: %v", name, test.rests, f)
		}
	}
}

// Without a request left, nothing is for schedules, and what they got is owed.
func TestLeft(t *testing.T) {
	t.Parallel()
	w := begin()
	w.quotas.Requests = 10
	one := w.tenants().Of("t")
	for _, step := range []struct {
		after time.Duration
		costs int
		left  bool
	}{{0, 9, true}, {0, 11, true}, {0, 0, false}, {time.Second, 0, false}, {100 * time.Millisecond, 0, true}} {
		w.now = w.now.Add(step.after)
		if f := one.Left(); (f == nil) != step.left {
			t.Errorf("%+v: %v", step, f)
		}
		one.Charge(step.costs)
	}
}

// Many may ask for one tenant at once, and together get no more than its quota, also before anybody has counted.
func TestAdmitTogether(t *testing.T) {
	t.Parallel()
	const askers, quota = 16, 100
	for _, has := range []int64{0, quota} {
		var stored atomic.Int64
		stored.Store(has)
		all := tenants.New(tenants.Options{
			Quotas: func(string) tenants.Quotas { return tenants.Quotas{Items: quota} },
			Count: func(string) (tenants.Usage, error) {
				n := stored.Load()
				for range askers {
					runtime.Gosched()
				}
				return tenants.Usage{Items: n}, nil
			},
			Now: func() time.Time { return time.Unix(1, 0) },
		})
		ask := func() {
			to := all.OfQueue("t.jobs").Open()
			defer to.End()
			if to.Admit(1, 1) == nil {
				runtime.Gosched()
				stored.Add(1)
			}
		}
		var group sync.WaitGroup
		for range askers {
			group.Go(func() {
				for range 50 {
					ask()
				}
			})
		}
		group.Wait()
		for range quota {
			ask()
		}
		if n := stored.Load(); n != quota {
			t.Errorf("the tenant with %d of %d items has %d", has, quota, n)
		}
	}
}

// Bundles of any size to many queues at once, with transactions that end late, fail or are slow, beside consumers and counts: at no
// instant has the tenant more than its quota.
func TestAdmitBundles(t *testing.T) {
	t.Parallel()
	const queues, quota = 60, 1000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var has [queues]atomic.Int64 // items
	var total, most, tick atomic.Int64
	all := tenants.New(tenants.Options{
		Quotas: func(string) tenants.Quotas { return tenants.Quotas{Items: quota} },
		Count: func(string) (u tenants.Usage, _ error) {
			for i := range has { // one queue after the other, as they are meanwhile
				u.Items += has[i].Load()
				runtime.Gosched()
			}
			return u, nil
		},
		Now: func() time.Time { return time.UnixMilli(tick.Add(200)) }, // so it is counted again soon
	})
	add := func(queue int, n int64) {
		if n > 0 { // it is in the total for as long as in the queue, at least
			for now, top := total.Add(n), most.Load(); now > top && !most.CompareAndSwap(top, now); top = most.Load() {
			}
			has[queue].Add(n)
			return
		}
		has[queue].Add(n)
		total.Add(n)
	}
	var admitted atomic.Int64
	var group sync.WaitGroup
	for queue := range has {
		random := rand.New(rand.NewPCG(seed, uint64(queue)))
		group.Go(func() {
			for range 40 {
				to := all.OfQueue("t.jobs").Open()
				n := 1 + random.Int64N([]int64{10, quota, 900}[random.IntN(3)])
				f := to.Admit(int(n), 0)
				for range random.IntN(5) {
					runtime.Gosched()
				}
				if f == nil && random.IntN(4) > 0 { // others fail
					admitted.Add(1)
					add(queue, n)
				}
				for range random.IntN(5) {
					runtime.Gosched()
				}
				to.End()
				if random.IntN(2) == 0 {
					add(queue, -has[queue].Load())
				}
			}
		})
	}
	group.Wait()
	if most.Load() > quota || admitted.Load() < 10 {
		t.Errorf("of %d bundles the tenant had %d items at once, its quota is %d", admitted.Load(), most.Load(), quota)
	}
}

// Who sends more than twice its rate floods, and so does who sends more than it may have in flight; what is larger counts for more.
func TestFloods(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ rate, share, size, most int64 }{
		{10, 100, 0, 100}, {100, 10, 0, 100}, {10, 1000, 8192, 10}, {5, 1000, 8192, 10}, {20, 1000, 4096, 20},
	} {
		w := begin()
		w.quotas.Requests = test.rate
		all := tenants.New(tenants.Options{
			Quotas: func(string) tenants.Quotas { return w.quotas }, Now: func() time.Time { return w.now },
			ShareRequests: test.share, ShareBytes: 10 * 8192,
		})
		one := all.Of("t")
		for range 2 {
			for n := range test.most {
				if one.Floods(int(test.size)) {
					t.Fatalf("%+v: %d messages are a flood", test, n+1)
				}
			}
			if !one.Floods(int(test.size)) || all.Of("other").Floods(int(test.size)) {
				t.Errorf("%+v: there is no flood of this tenant alone", test)
			}
			w.now = w.now.Add(time.Second)
		}
	}
}
