package clustertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// LogHarness gives the suite access to a log.
type LogHarness struct {
	// Place returns a function that opens the same log each time, which does not exist at first. Each test has a
	// place of its own.
	Place func(t testing.TB) func() cluster.Log

	// Remove deletes the log that open opens, as an operator may.
	Remove func(t testing.TB, log cluster.Log)
}

// RunLog tests a log against the contract of cluster.Log.
func RunLog(t *testing.T, h LogHarness) {
	for _, c := range []struct {
		name string
		run  func(*logFixture)
	}{
		{"Missing", testMissing},
		{"AppendsInOrder", testAppendsInOrder},
		{"RefusesOtherPositions", testRefusesOtherPositions},
		{"ReadsFromTheMiddle", testReadsFromTheMiddle},
		{"Confirms", testConfirms},
		{"LargestEntry", testLargestEntry},
		{"Purges", testPurges},
		{"OneWinner", testOneWinner},
		{"AnotherLog", testAnotherLog},
		{"Ends", testEnds},
		{"EndsWithoutLog", testEndsWithoutLog},
		{"CallsEnd", testCallsEnd},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience.Most)
			defer cancel()
			open := h.Place(t)
			c.run(&logFixture{TB: t, ctx: ctx, log: open(), open: open, remove: func(l cluster.Log) { h.Remove(t, l) }})
		})
	}
}

type logFixture struct {
	testing.TB
	ctx    context.Context
	log    cluster.Log
	open   func() cluster.Log
	remove func(cluster.Log)
}

// A log may be out of reach for a moment: its servers elect a leader, or are busy. Then it returns none of the
// errors of package cluster, and the suite asks again.

// certain reports whether the outcome of a call is an outcome that the contract knows.
func certain(err error) bool {
	if err == nil {
		return true
	}
	for _, known := range []error{cluster.ErrMoved, cluster.ErrFull, cluster.ErrNoLog, cluster.ErrNoEntry} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// insist calls until the outcome is certain.
func (f *logFixture) insist(call func() error) (err error) {
	for {
		if err = call(); certain(err) || f.ctx.Err() != nil {
			return err
		}
	}
}

func (f *logFixture) create() {
	f.Helper()
	if err := f.insist(func() error { return f.log.Create(f.ctx) }); err != nil {
		f.Fatalf("Create: %v", err)
	}
}

func (f *logFixture) purge(first uint64) {
	f.Helper()
	if err := f.insist(func() error { return f.log.Purge(f.ctx, first) }); err != nil {
		f.Fatalf("Purge(%d): %v", first, err)
	}
}

func (f *logFixture) state() (s cluster.LogState, err error) {
	err = f.insist(func() (err error) { s, err = f.log.State(f.ctx); return err })
	return s, err
}

func (f *logFixture) read(log cluster.Log, first uint64, most int) (entries [][]byte, err error) {
	err = f.insist(func() (err error) { entries, err = log.Read(f.ctx, first, most); return err })
	return entries, err
}

// append appends an entry that no other call appends. An attempt that was not answered
// may be in the log, so the next one may find the entry in its place.
func (f *logFixture) append(log cluster.Log, after uint64, entry []byte) error {
	attempts := 0
	err := f.insist(func() error { attempts++; return log.Append(f.ctx, after, entry) })
	if attempts > 1 && errors.Is(err, cluster.ErrMoved) {
		if found, readErr := f.read(log, after+1, 1); readErr == nil && bytes.Equal(found[0], entry) {
			return nil
		}
	}
	return err
}

// fill appends entries behind the number after.
func (f *logFixture) fill(after uint64, entries ...string) {
	f.Helper()
	for i, e := range entries {
		if err := f.append(f.log, after+uint64(i), []byte(e)); err != nil {
			f.Fatalf("Append(%d): %v", after+uint64(i), err)
		}
	}
}

// expect reads until it has the entries from first on; a log may miss the newest.
func (f *logFixture) expect(first uint64, want ...string) {
	f.Helper()
	for len(want) > 0 {
		got, err := f.read(f.log, first, len(want))
		if errors.Is(err, cluster.ErrNoEntry) {
			continue
		}
		if err != nil {
			f.Fatalf("Read(%d): %v", first, err)
		}
		if len(got) == 0 || len(got) > len(want) {
			f.Fatalf("Read(%d, %d) returned %d entries", first, len(want), len(got))
		}
		for i, e := range got {
			if string(e) != want[i] {
				f.Fatalf("entry %d has %d bytes %.40q, expected %d bytes %.40q", first+uint64(i), len(e), e, len(want[i]), want[i])
			}
		}
		first, want = first+uint64(len(got)), want[len(got):]
	}
}

// awaitState asks until the state is as expected.
func (f *logFixture) awaitState(what string, expected func(cluster.LogState) bool) cluster.LogState {
	f.Helper()
	for {
		s, err := f.state()
		if err != nil {
			f.Fatalf("State, waiting for %s: %v", what, err)
		}
		if expected(s) {
			return s
		}
	}
}

func testMissing(f *logFixture) {
	if _, err := f.state(); !errors.Is(err, cluster.ErrNoLog) {
		f.Errorf("State: %v, expected ErrNoLog", err)
	}
	if _, err := f.read(f.log, 1, 1); !errors.Is(err, cluster.ErrNoLog) {
		f.Errorf("Read: %v, expected ErrNoLog", err)
	}
	if err := f.append(f.log, 0, []byte("a")); !errors.Is(err, cluster.ErrNoLog) {
		f.Errorf("Append: %v, expected ErrNoLog", err)
	}
}

func testAppendsInOrder(f *logFixture) {
	f.create()
	s := f.awaitState("an empty log", func(s cluster.LogState) bool { return true })
	if s.Identity == "" || s.First != 1 || s.Last != 0 {
		f.Errorf("an empty log has the state %+v", s)
	}
	if _, err := f.read(f.log, 1, 1); !errors.Is(err, cluster.ErrNoEntry) {
		f.Errorf("Read of an empty log: %v, expected ErrNoEntry", err)
	}
	entry := []byte("a")
	if err := f.append(f.log, 0, entry); err != nil {
		f.Fatal(err)
	}
	entry[0] = 'x' // it belongs to the caller again
	f.fill(1, "b", "\x00\xff")
	f.create() // changes nothing
	f.expect(1, "a", "b", "\x00\xff")
	if t := f.awaitState("three entries", func(s cluster.LogState) bool { return s.Last == 3 }); t.Identity != s.Identity || t.First != 1 {
		f.Errorf("state %+v, expected one that begins at 1 with the identity %q", t, s.Identity)
	}
	f.log = f.open()
	f.expect(1, "a", "b", "\x00\xff")
}

func testRefusesOtherPositions(f *logFixture) {
	f.create()
	f.fill(0, "a", "b")
	for _, after := range []uint64{0, 1} {
		if err := f.append(f.log, after, []byte("x")); !errors.Is(err, cluster.ErrMoved) {
			f.Errorf("Append(%d): %v, expected ErrMoved", after, err)
		}
	}
	// The places of these entries are empty, so a log may not know whether the server that refuses is the only one
	// that was asked.
	for _, after := range []uint64{3, 1000} {
		if err := f.log.Append(f.ctx, after, []byte("x")); err == nil {
			f.Errorf("Append(%d) succeeded behind the end of the log", after)
		}
	}
	f.fill(2, "c")
	f.expect(1, "a", "b", "c")
}

func testReadsFromTheMiddle(f *logFixture) {
	f.create()
	var all []string
	for i := range 50 {
		all = append(all, fmt.Sprint("entry ", i))
	}
	f.fill(0, all...)
	f.expect(1, all...)
	f.expect(20, all[19:]...)
	got, err := f.read(f.log, 20, 3)
	if err != nil || len(got) == 0 || len(got) > 3 || string(got[0]) != all[19] {
		f.Errorf("Read(20, 3): %q, %v", got, err)
	}
	if _, err := f.read(f.log, 51, 3); !errors.Is(err, cluster.ErrNoEntry) {
		f.Errorf("Read behind the end: %v, expected ErrNoEntry", err)
	}
}

func testConfirms(f *logFixture) {
	confirm := func(number uint64) (entry []byte, err error) {
		err = f.insist(func() (err error) { entry, err = f.log.Confirm(f.ctx, number); return err })
		return entry, err
	}
	if _, err := confirm(1); !errors.Is(err, cluster.ErrNoLog) {
		f.Errorf("Confirm without a log: %v, expected ErrNoLog", err)
	}
	f.create()
	f.fill(0, "a", "\x00\xff", "c")
	for i, want := range []string{"a", "\x00\xff", "c"} {
		if got, err := confirm(uint64(i) + 1); err != nil || string(got) != want {
			f.Errorf("Confirm(%d): %q, %v, expected %q", i+1, got, err, want)
		}
	}
	f.purge(2)
	f.awaitState("a purge", func(s cluster.LogState) bool { return s.First == 2 })
	for _, number := range []uint64{1, 4} {
		if _, err := confirm(number); !errors.Is(err, cluster.ErrNoEntry) {
			f.Errorf("Confirm(%d) of what is not there: %v, expected ErrNoEntry", number, err)
		}
	}
}

func testLargestEntry(f *logFixture) {
	f.create()
	largest := string(bytes.Repeat([]byte("pq"), f.log.MaxEntry()/2))
	f.fill(0, largest, "b", largest, largest)
	f.expect(1, largest, "b", largest, largest)
}

func testPurges(f *logFixture) {
	f.create()
	f.fill(0, "a", "b", "c", "d")
	f.purge(3)
	f.awaitState("a purge", func(s cluster.LogState) bool { return s.First == 3 && s.Last == 4 })
	f.expect(3, "c", "d")
	for {
		_, err := f.read(f.log, 2, 5)
		if errors.Is(err, cluster.ErrNoEntry) {
			break
		}
		if err != nil {
			f.Fatalf("Read of a purged entry: %v, expected ErrNoEntry", err)
		}
	}
	f.fill(4, "e")
	f.purge(100)
	f.awaitState("the last entry alone", func(s cluster.LogState) bool { return s.First == 5 && s.Last == 5 })
	f.fill(5, "f")
	f.expect(5, "e", "f")
	f.purge(1)
	f.expect(5, "e", "f")
}

// testOneWinner lets several append at the same positions: each position has one
// winner, and all losers learn it.
func testOneWinner(f *logFixture) {
	f.create()
	const writers, positions = 4, 20
	won := make([][]string, writers)
	var wg sync.WaitGroup
	for w := range writers {
		log := f.open()
		won[w] = make([]string, positions)
		wg.Go(func() {
			for n := range positions {
				entry := fmt.Sprintf("entry %d of %d", n, w)
				for {
					err := f.append(log, uint64(n), []byte(entry))
					if err == nil {
						won[w][n] = entry
						break
					}
					if !errors.Is(err, cluster.ErrMoved) {
						f.Errorf("Append: %v", err)
						return
					}
					if _, err := f.read(log, uint64(n)+1, 1); err == nil {
						break
					} else if !errors.Is(err, cluster.ErrNoEntry) {
						f.Errorf("Read: %v", err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	var all []string
	for n := range positions {
		winners := 0
		for w := range writers {
			if won[w][n] != "" {
				all = append(all, won[w][n])
				winners++
			}
		}
		if winners != 1 {
			f.Fatalf("entry %d has %d winners", n+1, winners)
		}
	}
	f.expect(1, all...)
}

// testAnotherLog deletes the log and makes one of the same name.
func testAnotherLog(f *logFixture) {
	f.create()
	f.fill(0, "a", "b")
	before := f.awaitState("two entries", func(s cluster.LogState) bool { return s.Last == 2 })
	f.remove(f.log)
	for {
		_, err := f.log.State(f.ctx)
		if errors.Is(err, cluster.ErrNoLog) {
			break
		}
		if f.ctx.Err() != nil {
			f.Fatalf("State of a deleted log: %v, expected ErrNoLog", err)
		}
	}
	if err := f.append(f.log, 2, []byte("c")); !errors.Is(err, cluster.ErrNoLog) {
		f.Errorf("Append to a deleted log: %v, expected ErrNoLog", err)
	}
	f.log = f.open()
	f.create()
	after := f.awaitState("an empty log", func(s cluster.LogState) bool { return s.Last == 0 })
	if after.Identity == before.Identity {
		f.Errorf("a log made again has the identity %q of the old one", after.Identity)
	}
	f.fill(0, "A")
	f.expect(1, "A")
}

func (f *logFixture) end() {
	f.Helper()
	if err := f.insist(func() error { return f.log.End(f.ctx) }); err != nil {
		f.Fatalf("End: %v", err)
	}
}

func (f *logFixture) newest() (n uint64) {
	f.Helper()
	if err := f.insist(func() (err error) { n, err = f.log.Newest(f.ctx); return err }); err != nil {
		f.Fatalf("Newest: %v", err)
	}
	return n
}

// refusesAppends expects that the log takes nothing behind any of some entries.
func (f *logFixture) refusesAppends(numbers ...uint64) {
	f.Helper()
	for _, after := range numbers {
		ctx, cancel := context.WithTimeout(f.ctx, time.Second) // a log may look for the entry until then
		if err := f.log.Append(ctx, after, []byte("late")); err == nil {
			f.Errorf("Append(%d) succeeded although the log has ended", after)
		}
		cancel()
	}
}

// testEnds ends a log and goes on in another generation.
func testEnds(f *logFixture) {
	if n := f.newest(); n != 0 {
		f.Errorf("the newest generation is %d before there is one", n)
	}
	f.create()
	f.fill(0, "a", "b")
	f.end()
	f.end() // changes nothing
	f.create()
	for _, log := range []cluster.Log{f.log, f.open()} {
		f.log = log
		f.awaitState("the end", func(s cluster.LogState) bool { return s.Ended })
		f.refusesAppends(0, 1, 2, 3)
		if _, err := f.read(log, 1, 1); !errors.Is(err, cluster.ErrNoEntry) {
			f.Errorf("Read of a log that has ended: %v, expected ErrNoEntry", err)
		}
	}
	if n := f.newest(); n != 1 {
		f.Errorf("the newest generation is %d, expected 1", n)
	}
	f.log = f.log.Generation(2)
	if _, err := f.state(); !errors.Is(err, cluster.ErrNoLog) {
		f.Errorf("State of a generation that has not begun: %v, expected ErrNoLog", err)
	}
	f.create()
	if s := f.awaitState("a new generation", func(cluster.LogState) bool { return true }); s.Ended || s.Last != 0 {
		f.Errorf("the new generation has the state %+v", s)
	}
	f.fill(0, "A", "B")
	f.expect(1, "A", "B")
	if n := f.newest(); n != 2 {
		f.Errorf("the newest generation is %d, expected 2", n)
	}
	f.log = f.open()
	f.refusesAppends(0, 2)
}

// testEndsWithoutLog ends a log that is not there: it cannot be made any more.
func testEndsWithoutLog(f *logFixture) {
	f.end()
	f.create()
	f.awaitState("the end", func(s cluster.LogState) bool { return s.Ended })
	f.refusesAppends(0)
}

func testCallsEnd(f *logFixture) {
	f.create()
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	if err := f.log.Append(ctx, 0, []byte("a")); err == nil {
		f.Error("Append succeeded although its context had ended")
	}
	if _, err := f.log.Read(ctx, 1, 1); err == nil {
		f.Error("Read succeeded although its context had ended")
	}
	if _, err := f.log.State(ctx); err == nil {
		f.Error("State succeeded although its context had ended")
	}
}
