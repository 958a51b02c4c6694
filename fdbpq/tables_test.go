package fdbpq

import (
	"slices"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
)

// Each kind of rows has a check, unless any row is right, and each kind of timers has a work.
func TestTablesAreComplete(t *testing.T) {
	t.Parallel()
	unchecked := []string{
		layout.SpaceFence, layout.SpaceArrivals, layout.SpaceFinishes, layout.SpaceGarbage,
		layout.SpaceSchedule, layout.SpaceProgress, layout.SpaceSchedules, layout.SpaceDue, // package schedule checks these
		layout.SpaceLink, layout.SpaceOut, // package link checks these
		layout.SpaceSource, layout.SpacePosition, layout.SpaceSourceRunner, // package source checks these
	}
	checks := 0
	for _, kind := range layout.RowKinds {
		if rowChecks[kind.Space] != nil {
			checks++
		}
		if (rowChecks[kind.Space] == nil) != slices.Contains(unchecked, kind.Space) {
			t.Errorf("rows of the space %q: expected a check, or the space among those without one", kind.Space)
		}
	}
	if checks != len(rowChecks) {
		t.Errorf("there are checks for %d spaces, %d of them in RowKinds", len(rowChecks), checks)
	}
	for kind := range layout.TimerKinds {
		if timerWorks[kind].due == nil {
			t.Errorf("timers of kind %q: expected a work in timerWorks", kind)
		}
	}
	if len(timerWorks) != len(layout.TimerKinds) {
		t.Errorf("there is a work for %d kinds of timers, expected %d", len(timerWorks), len(layout.TimerKinds))
	}
}
