package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// shownSlow is how many of the slowest tests a run shows.
const shownSlow = 10

// summary is what a run ends with.
type summary struct {
	out     io.Writer
	red     []failure
	slow    []timed
	skipped map[string]int
	passed  int
	done    []string // packages that were tested to the end
	tested  int      // packages that have tests
	cached  int      // of them, those whose result go test remembered
	cpu     time.Duration
	seconds seconds
}

func (s *summary) add(r *recorder, cpu time.Duration) {
	s.slow = append(s.slow, r.slow...)
	s.passed += r.passed
	s.done = append(s.done, r.done...)
	s.tested += r.tested
	s.cached += r.cached
	s.cpu += cpu
	s.seconds.add(r.seconds)
	for why, n := range r.skipped {
		s.skipped[why] += n
	}
}

// show prints it, and returns the exit code.
func (s *summary) show(flaky []failure, took time.Duration) int {
	slices.SortStableFunc(s.slow, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	for _, t := range s.slow[:min(shownSlow, len(s.slow))] {
		fmt.Fprintf(s.out, "slow: %6.1fs %s\n", t.took, t.what)
	}
	s.seconds.show(s.out, s.cpu-s.seconds.sum())
	skipped := 0
	for _, why := range slices.Sorted(maps.Keys(s.skipped)) {
		fmt.Fprintf(s.out, "skipped: %d because %s\n", s.skipped[why], why)
		skipped += s.skipped[why]
	}
	for _, f := range s.red {
		fmt.Fprintf(s.out, "--- FAIL: %s (%s; log: %s)\n", f.String(), f.serious, f.log)
		fmt.Fprintf(s.out, "    %s\n    repeat: %s\n", firstMessage(f.text), f.repeat())
	}
	for _, f := range flaky {
		fmt.Fprintf(s.out, "FLAKY: %s (log: %s)\n    repeat: %s\n", f.String(), f.log, f.repeat())
	}
	fmt.Fprintf(s.out, "took %s, and %s of processor\n", took.Round(10*time.Millisecond), s.cpu.Round(10*time.Millisecond))
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", s.passed+len(flaky), len(s.red), skipped)
	fmt.Fprintf(s.out, "the results of %d of %d packages were remembered\n", s.cached, s.tested)
	if len(s.red) > 0 {
		return 1
	}
	return 0
}
