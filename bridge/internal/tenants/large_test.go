package tenants_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/protocol"
)

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
