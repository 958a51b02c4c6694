package tenants_test

import (
	"testing"
	"time"

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
