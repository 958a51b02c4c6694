// Package kvtest tests engines against the contract of package kv.
//
// An engine calls [Run] from a test of its own, and [RunCrash] as well when it
// keeps its rows on disks whose power a test can cut. The suite uses only package kv,
// never waits for time to pass, and keeps its transactions small, so it suits engines in
// memory, on disk and over a network.
//
// Most tests order concurrent transactions exactly, by running one of them inside the
// closure of another one. Package kv forbids closures that block, but an optimistic
// engine has to work with them.
package kvtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// Harness gives the suite access to an engine.
type Harness struct {
	// Open returns a store without rows. Stores are used one after the other;
	// the suite closes them.
	Open func(t testing.TB) kv.DB

	// Advance moves the clock by which transactions of the store opened last
	// age. Nil skips the tests that need it.
	Advance func(d time.Duration)

	// Reruns says that the engine may rerun closures without a conflict, as a wrapper
	// that injects conflicts does. Tests that count runs are skipped.
	Reruns bool

	// Seed varies the random tests; every seed must pass. 0: a new one, which is logged.
	Seed uint64
}

// Run tests an engine.
func Run(t *testing.T, h Harness) {
	h.Seed = seedOf(t, h.Seed)
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			if c.countsRuns && h.Reruns {
				t.Skip("the engine reruns closures without need")
			}
			if c.needsAdvance && h.Advance == nil {
				t.Skip("the engine's clock cannot be moved")
			}
			c.run(newFixture(t, h))
		})
	}
}

func seedOf(t testing.TB, seed uint64) uint64 {
	t.Helper()
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return seed
}

// testCase is one test of the suite.
type testCase struct {
	name         string
	run          func(*fixture)
	countsRuns   bool // it fails on engines that run closures again without need
	needsAdvance bool
}

func cases() []testCase {
	var all []testCase
	all = append(all, readCases...)
	all = append(all, ownershipCases...)
	all = append(all, conflictCases...)
	all = append(all, wideRangeCases...)
	all = append(all, limitCases...)
	all = append(all, endingCases...)
	all = append(all, ageCases...)
	all = append(all, watchCases...)
	all = append(all, randomCases...)
	all = append(all, historyCases...)
	return all
}

// fixture is a test with an open store. Its methods fail the test, so only the
// test's own goroutine may call methods that return no error.
type fixture struct {
	testing.TB
	ctx     context.Context
	db      kv.DB
	seed    uint64
	advance func(time.Duration)
}

func newFixture(t testing.TB, h Harness) *fixture {
	ctx, cancel := context.WithTimeout(context.Background(), patience.Most)
	t.Cleanup(cancel)
	f := &fixture{TB: t, ctx: ctx, db: h.Open(t), seed: h.Seed, advance: h.Advance}
	t.Cleanup(func() {
		if err := f.db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Errorf("Close: %v", err)
		}
	})
	return f
}

// update runs a transaction that must commit.
func (f *fixture) update(fn func(tx kv.Tx) error) {
	f.Helper()
	if err := f.db.Update(f.ctx, fn); err != nil {
		f.Fatalf("Update: %v", err)
	}
}

// view runs a read-only transaction that must succeed.
func (f *fixture) view(fn func(r kv.Reader) error) {
	f.Helper()
	if err := f.db.View(f.ctx, fn); err != nil {
		f.Fatalf("View: %v", err)
	}
}

// do commits writes.
func (f *fixture) do(writes ...op) {
	f.Helper()
	f.update(func(tx kv.Tx) error {
		for _, w := range writes {
			w.apply(tx)
		}
		return nil
	})
}

// start empties the store and commits writes.
func (f *fixture) start(writes ...op) {
	f.Helper()
	f.do(append([]op{clearRange("", everything)}, writes...)...)
}

// expect fails the test unless the store holds exactly the rows of m.
func (f *fixture) expect(m model) {
	f.Helper()
	f.view(func(r kv.Reader) error { return m.compareAll(r) })
}

// expectRows is expect for pairs of keys and values.
func (f *fixture) expectRows(keysAndValues ...string) {
	f.Helper()
	f.expect(newModel(keysAndValues...))
}

// aside runs a transaction to its end on another goroutine. Closures call it to make something happen while they
// run.
func (f *fixture) aside(fn func(tx kv.Tx) error) error {
	result := make(chan error, 1)
	go func() { result <- f.db.Update(f.ctx, fn) }()
	if err := <-result; err != nil {
		return fmt.Errorf("a transaction during another: %w", err)
	}
	return nil
}

// asideDo commits writes as aside does.
func (f *fixture) asideDo(writes ...op) error {
	return f.aside(func(tx kv.Tx) error {
		for _, w := range writes {
			w.apply(tx)
		}
		return nil
	})
}

// wait returns when c is closed, and an error when that never happens.
func (f *fixture) wait(c <-chan struct{}, what string) error {
	select {
	case <-c:
		return nil
	case <-patience.Late():
		return fmt.Errorf("waited %v in vain for %s", patience.Long(), what)
	}
}

// await is wait for the test's own goroutine.
func (f *fixture) await(c <-chan struct{}, what string) {
	f.Helper()
	if err := f.wait(c, what); err != nil {
		patience.Fail(f, "%v", err)
	}
}

// closed reports whether c is closed by now.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// interleave runs a transaction in which others commit between first and last:
//
//	first   others   last   commit
//
// On reruns others stay away. It returns how often the closure ran.
func (f *fixture) interleave(first func(kv.Tx) error, others func() error, last func(kv.Tx) error) int {
	f.Helper()
	runs := 0
	f.update(func(tx kv.Tx) error {
		runs++
		// An engine may choose the state to read as late as the first read.
		if _, err := tx.Snapshot().Get([]byte("anchor")); err != nil {
			return err
		}
		if err := first(tx); err != nil {
			return err
		}
		if runs == 1 {
			if err := others(); err != nil {
				return err
			}
		}
		return last(tx)
	})
	return runs
}

// once runs attempt, which returns how often a closure ran, and fails the test
// unless that is once. Networks have hiccups, so one run in a few attempts is
// enough; an engine that sees a conflict where there is none always reruns.
func (f *fixture) once(what string, attempt func() int) {
	f.Helper()
	const attempts = 3
	for range attempts {
		if attempt() == 1 {
			return
		}
	}
	f.Errorf("%s: the closure was rerun without a conflict, %d times out of %d", what, attempts, attempts)
}
