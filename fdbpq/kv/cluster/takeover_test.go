package cluster_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// run runs a test in virtual time, with a cluster of three that is up.
func run(t *testing.T, members int, test func(w *world)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, members)
		defer w.end()
		for _, n := range w.nodes {
			n.start()
		}
		test(w)
	})
}

// others are all nodes but one.
func (w *world) others(but *node) (all []*node) {
	for _, n := range w.nodes {
		if n != but {
			all = append(all, n)
		}
	}
	return all
}

// The active member dies: another one goes on with all that was written. When the first
// one is back, it follows.
func TestTakeover(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		first.kill(rand.New(rand.NewPCG(1, 1)))
		began := time.Now()
		_, next := w.active(w.others(first)...)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v until another member was active", took)
		}
		if next.Epoch() <= term.Epoch() {
			t.Errorf("epoch %d follows %d", next.Epoch(), term.Epoch())
		}
		if got := w.read(next, "k"); got != "1" {
			t.Errorf("the value is %q after the takeover", got)
		}
		w.write(next, "k", "2")
		first.start()
		w.caughtUp(first)
		w.settleCopies()
	})
}

// Who takes over knows how long ago the last transaction was committed, as long as a member ran.
// After a restart of all nobody knows.
func TestLastWrite(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		if _, known := term.LastWrite(); known {
			t.Error("the first term knows of a transaction before it")
		}
		w.write(term, "k", "1")
		wrote := time.Now()
		w.allCaughtUp()
		rng := rand.New(rand.NewPCG(1, 4))
		first.kill(rng)
		others := w.others(first)
		_, next := w.active(others...)
		if at, known := next.LastWrite(); !known || at.Sub(wrote).Abs() > 100*time.Millisecond {
			t.Errorf("the last transaction was at %v, %t, expected %v", at, known, wrote)
		}
		w.write(next, "k", "2")
		first.start()
		w.allCaughtUp()
		for _, n := range w.nodes {
			n.kill(rng)
		}
		for _, n := range w.nodes {
			n.start()
		}
		_, last := w.active()
		if at, known := last.LastWrite(); known {
			t.Errorf("after a restart of all the last transaction was at %v", at)
		}
	})
}

// Who takes over asks the others when the last transaction was written, and the earliest of them is right: it may have
// read the transaction late itself. The member that wrote it knows when it began to, also where the log is slow.
func TestLastWriteIsTheEarliest(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		w.allCaughtUp()
		successor := w.others(first)[1]
		see := successor.faults.holdLog()
		first.faults.set(func(f *faults) {
			f.halt = func(at halt) {
				if at == beforeAppend {
					<-time.After(300 * time.Millisecond)
				}
			}
		})
		began := time.Now()
		w.write(term, "k", "2")
		<-time.After(500 * time.Millisecond)
		see()
		w.allCaughtUp()
		if err := first.up().Release(context.Background(), successor.name); err != nil {
			t.Fatal(err)
		}
		_, next := w.active(successor)
		if at, known := next.LastWrite(); !known || at.Sub(began).Abs() > 50*time.Millisecond {
			t.Errorf("the last transaction was %v after it was about to be written, known: %t", at.Sub(began), known)
		}
	})
}

// A member that steps down names the next one, which is active at once.
func TestRelease(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		w.allCaughtUp()
		successor := w.others(first)[1]
		began := time.Now()
		if err := first.up().Release(context.Background(), successor.name); err != nil {
			t.Fatal(err)
		}
		at, next := w.active(w.others(first)...)
		if took := time.Since(began); at != successor || took > time.Second {
			t.Errorf("member %s was active after %v, expected %s at once", at.name, took, successor.name)
		}
		select {
		case <-term.Over():
		default:
			t.Error("the term goes on after the release")
		}
		if err := term.Update(context.Background(), set("k", "late")); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("a transaction of the old term returned %v, expected ErrUnavailable", err)
		}
		if got := w.read(next, "k"); got != "1" {
			t.Errorf("the value is %q after the release", got)
		}
		if err := first.up().Release(context.Background(), ""); !errors.Is(err, cluster.ErrNotActive) {
			t.Errorf("releasing twice: %v, expected ErrNotActive", err)
		}
	})
}

// The successor reads the release although the servers that it asks lag behind at first: the
// heartbeats of the other member tell it that there is something to read. The time is
// virtual.
func TestReleaseOnLaggingServers(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		w.allCaughtUp()
		successor := w.others(first)[0]
		successor.faults.set(func(f *faults) { f.unseen = 4 })
		began := time.Now()
		if err := first.up().Release(context.Background(), successor.name); err != nil {
			t.Fatal(err)
		}
		w.caughtUp(successor)
		if took := time.Since(began); took > 150*time.Millisecond {
			t.Errorf("it took %v until the successor had read the release", took)
		}
		if at, _ := w.active(w.others(first)...); at != successor {
			t.Errorf("member %s is active, expected %s", at.name, successor.name)
		}
	})
}

// The server that knows all generations of the log ends together with the active member, in
// order or not. Another member takes over as soon as otherwise. The time is virtual.
func TestTakeoverWithoutListOfGenerations(t *testing.T) {
	for what, end := range map[string]struct {
		how  func(*node)
		most time.Duration
	}{
		"release": {(*node).stop, time.Second},
		"death":   {func(n *node) { n.kill(rand.New(rand.NewPCG(1, 2))) }, 5 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			run(t, 3, func(w *world) {
				first, term := w.active()
				w.write(term, "k", "1")
				w.allCaughtUp()
				for _, n := range w.others(first) {
					n.faults.set(func(f *faults) { f.listless = true })
				}
				end.how(first)
				began := time.Now()
				_, next := w.active(w.others(first)...)
				if took := time.Since(began); took > end.most {
					t.Errorf("it took %v until another member was active", took)
				}
				if got := w.read(next, "k"); got != "1" {
					t.Errorf("the value is %q after the takeover", got)
				}
			})
		})
	}
}

// A member that was paused does not know that it is not active any more. It answers
// nothing from its copy, and nothing that it writes counts.
func TestPausedMemberIsNotStale(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		wake := first.faults.hold()
		_, next := w.active(w.others(first)...)
		w.write(next, "k", "2")

		var seen []byte
		read, written := make(chan error, 1), make(chan error, 1)
		go func() {
			read <- term.View(context.Background(), func(r kv.Reader) (err error) {
				seen, err = r.Get([]byte("k"))
				return err
			})
		}()
		go func() { written <- term.Update(context.Background(), set("k", "3")) }()
		synctest.Wait()
		select {
		case err := <-read:
			t.Errorf("a member that cannot reach the log answered %q, %v", seen, err)
			read <- err
		default:
		}
		wake()
		if err := <-read; !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("the read returned %q, %v, expected ErrUnavailable", seen, err)
		}
		if err := <-written; !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("the write returned %v, expected ErrUnavailable", err)
		}
		<-term.Over()
		if got := w.read(next, "k"); got != "2" {
			t.Errorf("the value is %q", got)
		}
	})
}

// settleCopies compares all copies once they have everything.
func (w *world) settleCopies() {
	w.Helper()
	for _, n := range w.nodes {
		w.caughtUp(n)
		if got, want := n.content(), w.nodes[0].content(); got != want {
			w.Errorf("member %s has\n%s\nmember %s has\n%s", n.name, got, w.nodes[0].name, want)
		}
	}
}

// The active member ends when the log has no room for one more entry. A candidate, which
// has to append one, makes room.
func TestTakeoverOfFullLog(t *testing.T) {
	run(t, 3, func(w *world) {
		w.log.MaxBytes = 100_000
		first, term := w.active()
		w.write(term, "k", "1")
		for size := 16 << 10; size > 0; size /= 2 {
			for term.Update(context.Background(), set("fill", strings.Repeat("x", size))) == nil {
			}
		}
		first.kill(rand.New(rand.NewPCG(1, 1)))
		_, next := w.active(w.others(first)...)
		if got := w.read(next, "k"); got != "1" {
			t.Errorf("the value is %q after the takeover", got)
		}
		w.write(next, "k", "2")
	})
}
