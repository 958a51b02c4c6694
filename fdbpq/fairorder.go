package fdbpq

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// leave clears the rows of the present order by ranges, however many they are.
func (f fair) leave() {
	if f.state.config.Fair == "" {
		return
	}
	for _, space := range []string{layout.SpaceFairKey, layout.SpaceUnnamed, layout.SpaceClass} {
		f.tx.ClearRange(tuple.Range(f.prefixOf(space)))
	}
	f.tx.ClearRange(tuple.Range(layout.GenerationPrefix(layout.SpaceWeight, f.name, f.state.generation)))
}

// buildLater sets a timer that goes on behind a key. The transaction that begins an order builds
// nothing: until it commits, other transactions add keys without rows in the order.
func (f fair) buildLater(behind string) error {
	return timers{f.queueRows}.atOnce(layout.TimerFair, fmt.Sprintf("%d:%s", f.state.fairOrder, behind))
}

// due writes the rows of the next keys. After the last key, pops go by the fair order.
func (f fair) due(t layout.Timer) error {
	s := f.state
	order, behind, _ := strings.Cut(t.ID, ":")
	if !f.there() || s.config.Fair == "" || s.fairBuilt || order != strconv.FormatInt(s.fairOrder, 10) {
		return nil
	}
	last, done, err := keyIndex{f.queueRows}.findNext(behind)
	if err != nil {
		return err
	}
	if !done {
		return f.buildLater(last)
	}
	built := *s
	built.fairBuilt = true
	return f.writeState(&built)
}
