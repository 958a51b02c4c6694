package tenants_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/protocol"
)

// What rows cost is what they cost beyond what was paid otherwise.
func TestCostOfRows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rows, paid, want int }{{0, 0, 0}, {0, 1, 0}, {399, 1, 0}, {400, 1, 1}, {3200, 1, 15}, {3200, 16, 0}, {3200, 20, 0}} {
		if got := tenants.CostOfRows(c.rows, c.paid); got != c.want {
			t.Errorf("%d rows for which %d was paid cost %d, expected %d", c.rows, c.paid, got, c.want)
		}
	}
	for keys, want := range map[int]int{0: 0, 1: 1, 16: 1, 17: 2, 64: 4} {
		if got := tenants.CostOfKeys(keys); got != want {
			t.Errorf("%d keys cost %d, expected %d", keys, got, want)
		}
	}
}

// Rows are owed as requests are, and whoever owes the requests of a quarter of a second for rows gets nothing of what was
// admitted before.
func TestWeigh(t *testing.T) {
	t.Parallel()
	w := begin()
	w.quotas.Requests = 40
	one := w.tenants().Of("t")
	for i, step := range []struct {
		after     time.Duration
		costs     int
		more      int // that the present transaction costs
		overdrawn bool
		served    int
	}{
		{0, 4, 5, false, 36}, {0, 0, 6, true, 0}, {100 * time.Millisecond, 0, 9, false, 4},
		{2 * time.Second, 100, 0, true, 0}, {time.Second, 0, 0, true, 0}, {time.Second, 0, 0, true, 20},
		{time.Second / 2, 0, 0, false, 20}, {time.Second, 0, 9, false, 40}, {time.Second, 0, 10, true, 40},
	} {
		w.now = w.now.Add(step.after)
		one.Weigh(step.costs)
		if f := one.Overdrawn(step.more); (f != nil) != step.overdrawn || f != nil && f.Reason != protocol.ReasonQuotaRequests {
			t.Errorf("step %d: %v", i, f)
		}
		served := 0
		for one.Ask(false) == nil {
			served++
		}
		if served != step.served {
			t.Errorf("step %d: %d requests, expected %d", i, served, step.served)
		}
	}
	w.quotas.Requests = 0
	one.Weigh(1000)
	if f := one.Overdrawn(1000); f != nil {
		t.Errorf("without a rate: %v", f)
	}
}

// What a tenant was charged counts all that costs it requests, whether it has a rate or none.
func TestCharged(t *testing.T) {
	t.Parallel()
	for _, rate := range []int64{0, 10} {
		w := begin()
		w.quotas.Requests = rate
		all := w.tenants()
		one := all.Of("t")
		one.Ask(false)
		one.Charge(20)
		one.Weigh(300)
		one.Share.Owe(4001, 0)
		for range 2 {
			if got, count := one.Charged(), all.Counts()["t"]; got != 4321 || count.Charged != got || count.Requests != 1 {
				t.Errorf("at a rate of %d: charged %d, counted %+v", rate, got, count)
			}
		}
	}
}

// A look at what tenants were charged keeps none of them known.
func TestCountsKeepNobody(t *testing.T) {
	t.Parallel()
	w := begin()
	all := w.tenants()
	all.Of("old")
	for range 10 {
		w.now = w.now.Add(30 * time.Second)
		all.Counts()
	}
	all.Of("new")
	if _, known := all.Counts()["old"]; known {
		t.Error("an idle tenant is known for as long as somebody looks")
	}
}

// begun are large requests, and what became of them.
type begun struct {
	*testing.T
	of   *tenants.Tenant
	said []int // a number of each that began; below 0 if it was refused
}

func (b *begun) begin(i, n int) {
	b.of.Begin(n, func(f *failure.Failure) {
		if f != nil && f.Reason != protocol.ReasonQuotaRequests {
			b.Errorf("%d: %v", i, f)
		}
		if f != nil {
			i = -i
		}
		b.said = append(b.said, i)
	})
}

func (b *begun) expect(want ...int) {
	b.Helper()
	if !slices.Equal(b.said, want) {
		b.Fatalf("began and refused: %v, expected %v", b.said, want)
	}
	b.said = nil
}

// Of large requests as many are under way as there may be requests left for, and the others wait until it is known
// what those have cost. When nothing is left they are refused.
func TestLarge(t *testing.T) {
	t.Parallel()
	w := begin()
	w.quotas.Requests = 100
	b := &begun{T: t, of: w.tenants().Of("t")}
	for i := 1; i <= 6; i++ {
		b.begin(i, 40)
	}
	b.expect(1, 2)
	b.of.End(40) // it has cost nothing more
	b.expect(3)
	b.of.Share.Owe(31, 0)
	b.of.End(40)
	b.expect() // 70 are left, and 40 of them reserved
	b.of.Share.Owe(72, 0)
	b.of.End(40)
	b.expect(-4, -5, -6)
	b.begin(7, 1000)
	b.expect(-7)
	w.now = w.now.Add(time.Second)
	b.begin(8, 1000) // more than there ever are
	b.begin(9, 2)
	b.expect(8)
	b.of.End(1000)
	b.expect(9)
}

// Without a rate nothing waits.
func TestLargeWithoutRate(t *testing.T) {
	t.Parallel()
	b := &begun{T: t, of: begin().tenants().Of("t")}
	for i := range 3 {
		b.begin(i+1, 1<<20)
	}
	b.expect(1, 2, 3)
}

// A refused request waits about until there may be another one, between a tenth of a second and one second; a large one for up to one and a half.
func TestPause(t *testing.T) {
	t.Parallel()
	w := begin()
	w.quotas.Requests = 100
	one := w.tenants().Of("t")
	for _, c := range []struct {
		debt, bytes int
		want        time.Duration
	}{
		{0, 0, 100 * time.Millisecond},
		{49, 0, 500 * time.Millisecond},
		{1000, 0, time.Second},
		{1000, 16 << 10, time.Second},
		{1000, 16<<10 + 1, 1500 * time.Millisecond},
		{9, 40 * 4 << 10, 500 * time.Millisecond},
	} {
		w.now = w.now.Add(time.Hour)
		one.Ask(false)
		one.Charge(99 + c.debt)
		for range 100 {
			if got := one.Pause(c.bytes); got < c.want*3/4 || got > c.want*5/4 {
				t.Fatalf("with a debt of %d one of %d bytes waits for %s, expected about %s", c.debt, c.bytes, got, c.want)
			}
		}
	}
}
