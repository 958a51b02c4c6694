package fault

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// TestByChance: a seed decides what happens, everything happens, and late
// commits are made by later calls.
func TestByChance(t *testing.T) {
	t.Parallel()
	chances := Chances{Conflict: 0.2, Unavailable: 0.1, UnknownNever: 0.1, UnknownDone: 0.1, UnknownLate: 0.2}
	run := func(seed uint64) (string, Stats) {
		db := open(t, Options{Seed: seed, Chances: chances})
		var story strings.Builder
		for i := range 300 {
			err := db.Update(t.Context(), increment(fmt.Sprintf("n%d", i%7)))
			fmt.Fprintln(&story, err)
		}
		stats := db.Stats()
		db.SetChances(nil)
		for range 100 {
			mustUpdate(t, db, set("m", ""))
		}
		if n := db.Late(); n > 0 {
			t.Errorf("%d commits are late after 100 other calls", n)
		}
		story.WriteString(rows(t, db))
		return story.String(), stats
	}
	first, stats := run(1)
	for kind := Conflict; kind <= UnknownLate; kind++ {
		if n := stats.Injected[kind]; n < 10 {
			t.Errorf("%q happened %d times in 300 calls with chance %v", kind, n, chances[kind])
		}
	}
	if stats.LateDone == 0 || stats.LateFailed == 0 || stats.LateDropped != 0 || stats.Updates != 300 {
		t.Errorf("stats are %+v, expected late commits that succeed and fail", stats)
	}
	if again, _ := run(1); again != first {
		t.Error("the same seed gave another story")
	}
	if other, _ := run(2); other == first {
		t.Error("another seed gave the same story")
	}
}

func TestChancesInView(t *testing.T) {
	t.Parallel()
	db := open(t, Options{Seed: 1, Chances: Chances{Conflict: 0.4, Unavailable: 0.2, UnknownDone: 0.4}})
	runs, failed := 0, 0
	for range 100 {
		err := db.View(t.Context(), func(kv.Reader) error { runs++; return nil })
		if err != nil {
			expectError(t, err, kv.ErrUnavailable)
			failed++
		}
	}
	stats := db.Stats()
	if failed == 0 || failed != stats.Injected[Unavailable] || runs != 100-failed+stats.Injected[Conflict] || runs != stats.Runs || stats.Views != 100 {
		t.Errorf("%d runs, %d failed, stats are %+v", runs, failed, stats)
	}
}
