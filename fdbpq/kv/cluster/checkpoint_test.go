package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// fill writes until the log has purged the first entries.
func (w *world) fill(what string) {
	w.Helper()
	_, term := w.active()
	for i := 0; ; i++ {
		w.write(term, fmt.Sprint("row ", i%10), strings.Repeat(what, 2000))
		state, err := w.log.State(context.Background())
		if err != nil {
			w.Fatal(err)
		}
		if state.First > 2 {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

// The log forgets what the disks of members have. A member that comes back late, and one
// that lost its disk, fetch a checkpoint from another one, also when it is killed
// meanwhile and has to go on.
func TestCheckpoints(t *testing.T) {
	run(t, 3, func(w *world) {
		w.log.MaxBytes = 400_000
		first, term := w.active()
		late, lost := w.others(first)[0], w.others(first)[1]
		w.write(term, "k", "1")
		w.caughtUp(late)
		rng := rand.New(rand.NewPCG(7, 7))
		late.kill(rng)
		w.fill("x")
		late.start()
		late.faults.set(func(f *faults) { f.rng = rand.New(rand.NewPCG(7, 8)) }) // so that fetching takes a while
		for range 5 {
			// Somewhere on its way, or at the end of it.
			_ = rest(context.Background(), time.Duration(rng.IntN(700))*time.Millisecond)
			late.kill(rng)
			late.start()
		}
		w.settleCopies()

		lost.kill(rng)
		lost.disk = newDisk()
		w.fill("y")
		lost.start()
		w.settleCopies()

		<-time.After(15 * time.Minute) // nobody asks for one any more
		for _, n := range w.nodes {
			if _, err := n.disk.Stat("/copy.checkpoint"); err == nil {
				t.Errorf("member %s still has the checkpoint that it made for another one", n.name)
			}
		}
	})
}

// Without a second disk that has it, the log forgets nothing, and says that it is full.
func TestFullLog(t *testing.T) {
	run(t, 3, func(w *world) {
		w.log.MaxBytes = 100_000
		first, term := w.active()
		for _, n := range w.others(first) {
			n.kill(rand.New(rand.NewPCG(8, 8)))
		}
		<-time.After(20 * time.Second) // both count as dead
		var err error
		n := 0
		for ; err == nil; n++ {
			err = term.Update(context.Background(), set(fmt.Sprint("row ", n), strings.Repeat("x", 1000)))
		}
		wantUnavailable(t, err, "log is full")
		w.await("the member to say so", func() bool { return first.up().Fill() > 0.9 })
		if state, _ := w.log.State(context.Background()); state.First != 1 {
			t.Errorf("the log begins at %d, although one disk alone has it", state.First)
		}
		w.others(first)[0].start()
		w.await("room in the log for more than an entry or two", func() bool {
			return term.Update(context.Background(), set("k", strings.Repeat("x", 20_000))) == nil
		})
		w.await("the member to say so", func() bool { return first.up().Fill() < 0.9 })
		if got := w.read(term, fmt.Sprint("row ", n-1)); got != "" {
			t.Error("a transaction that was refused is there")
		}
	})
}

// A log is full, and ends with a part of a transaction that had no room. It gets room when
// other disks have what it has.
func TestFullLogEndsWithAPart(t *testing.T) {
	runInParts(t, func(w *world) {
		w.log.MaxBytes = 100_000
		first, term := w.active()
		for _, n := range w.others(first) {
			n.kill(rand.New(rand.NewPCG(9, 9)))
		}
		<-time.After(20 * time.Second) // both count as dead
		for n := 0; ; n++ {
			if term.Update(context.Background(), set(fmt.Sprint("row ", n), strings.Repeat("x", 5000))) != nil {
				break
			}
		}
		if state, err := w.log.State(context.Background()); err != nil || state.Last == first.up().Status().Entry {
			t.Fatalf("the log ends with a transaction: %+v, %v", state, err)
		}
		for _, n := range w.others(first) {
			n.start()
		}
		w.await("room in the log", func() bool { return term.Update(context.Background(), set("k", strings.Repeat("x", 20_000))) == nil })
		w.settleCopies()
	})
}
