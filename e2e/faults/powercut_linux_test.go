package faults_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/disk"
	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/testenv"
)

var flagCuts = flag.Int("pq.cuts", 0, "power cuts at most, and a hundredth of that with large items; 0: none")

// recorded has the steps of a pqd on a test's disk, and the history of its clients.
type recorded struct {
	events     []disk.Event
	operations []history.Operation
	end        time.Duration
	random     *rand.Rand
	attempt    time.Duration // for one answer; 0: a second
}

const powerStore = "made/with/all" // its directories

// smallSpare makes the spare file of a pqd small, on a disk that remembers each write, or has many copies.
const smallSpare = "PQ_MIN_FREE=4M"

// record has clients use a pqd that is killed and stopped on the way, so that the store
// is created, used, opened again and compacted on the disk.
func record(t *testing.T, random *rand.Rand, steps, padding int) recorded {
	recorder := history.NewRecorder()
	d := disk.Mount(t, recorder.Now)
	p := testenv.Daemon(t, "PQ_STORE=local:"+filepath.Join(d.Dir, powerStore), smallSpare)
	r := recorded{random: random}
	r.work(t, p.URL, recorder, steps, padding, []func(){
		func() { p.Kill(t); p.Start(t) },
		func() { p.Stop(t); p.Start(t) },
		func() { p.Kill(t); p.Start(t) },
	})
	r.end = recorder.Now()
	p.Kill(t)
	r.events = d.Events()
	return r
}

// work has four clients work, and something happen between two rounds of it.
func (r *recorded) work(t *testing.T, url string, recorder *history.Recorder, steps, padding int, between []func()) {
	t.Helper()
	var workers []*testenv.Worker
	var answers atomic.Int64
	for id := range 4 {
		w := &testenv.Worker{
			TB: t, ID: id, Queue: keptQueue, Recorder: recorder, Answers: &answers, Loses: true, Lasting: longest, Padding: padding,
			Dial:   func(options ...nats.Option) (*nats.Conn, error) { return nats.Connect(url, options...) },
			Random: rand.New(rand.NewPCG(r.random.Uint64(), 0)), Attempt: r.attempt,
		}
		w.Connect()
		workers = append(workers, w)
	}
	for round := 0; ; round++ {
		var clients sync.WaitGroup
		for _, w := range workers {
			clients.Go(func() {
				for range steps {
					w.Step()
				}
			})
		}
		clients.Wait()
		if round == len(between) {
			break
		}
		between[round]()
	}
	for _, w := range workers {
		w.Close()
	}
	if t.Failed() {
		t.FailNow()
	}
	r.operations = recorder.Operations()
}

// until is the history up to a moment, and how many leases may have no holder then:
// requests in flight may be done or not.
func until(operations []history.Operation, moment time.Duration) (seen []history.Operation, open int) {
	for _, o := range operations {
		switch {
		case o.Call >= moment, o.Return >= moment && o.Kind == history.Peek:
			continue
		case o.Return >= moment:
			o.Outcome, o.Return = history.Unknown, history.Never
			switch o.Kind {
			case history.Pop, history.Lease:
				o.Item, o.Priority, o.Fence, o.Ack = "", 0, 0, ""
			}
			if o.Kind != history.Push && o.Kind != history.Pop {
				open++
			}
		}
		seen = append(seen, o)
	}
	return seen, open
}

// unfold writes what a disk has into a directory.
func unfold(t *testing.T, tree disk.Tree) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		var err error
		if content, at := tree[name], filepath.Join(dir, name); content == nil {
			err = os.Mkdir(at, 0o700)
		} else {
			err = os.WriteFile(at, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// judge starts pqd on the disk as it was after the power cut, and has clients continue.
func (r recorded) judge(t *testing.T, tree disk.Tree, moment time.Duration, seed uint64) {
	store := filepath.Join(unfold(t, tree), powerStore)
	p := testenv.Daemon(t, "PQ_STORE=local:"+store)
	judge := r.resume(t, p.URL, moment, seed)
	p.Kill(t)
	testenv.CheckDir(t, store)
	judge()
}

// resume has a client continue after a power cut, until the queue is empty. The function that
// it returns judges the history.
func (r recorded) resume(t *testing.T, url string, moment time.Duration, seed uint64) (judge func()) {
	seen, open := until(r.operations, moment)
	recorder := history.Resume(seen, moment)
	w := &testenv.Worker{
		TB: t, ID: 99, Queue: keptQueue, Recorder: recorder, Answers: new(atomic.Int64), Lasting: longest,
		Dial:   func(options ...nats.Option) (*nats.Conn, error) { return nats.Connect(url, options...) },
		Random: rand.New(rand.NewPCG(seed, 0)), Attempt: r.attempt, Retries: true,
	}
	w.Connect()
	for _, lease := range leases(seen) {
		w.Hold(lease)
	}
	w.Finish()
	w.Empty()
	var left struct{ Ready, Leased, Delayed int }
	if text := cmp.Or(w.Info(), "{}"); json.Unmarshal([]byte(text), &left) != nil || left.Ready+left.Delayed > 0 || left.Leased > open {
		t.Errorf("%s is left, expected no more than %d leased items, whose holders had no answer", text, open)
	}
	w.Close()
	operations := recorder.Operations()
	for range left.Leased { // like an item of a pop without an answer
		operations = append(operations, history.Operation{Kind: history.Pop, Outcome: history.Unknown, Call: recorder.Now(), Return: history.Never})
	}
	return func() { testenv.Judge(t, operations, history.One) }
}

// cut is a disk after a power cut, and when the power failed.
type cut struct {
	name   string
	tree   disk.Tree
	moment time.Duration
}

// cuts are the states that the disk may have when the power fails after one of the
// events, each state once. Of several moments with the same state the last one counts, at
// which most was acknowledged.
func (r recorded) cuts(every int) iter.Seq[cut] {
	return func(yield func(cut) bool) { r.eachCut(every, yield) }
}

func (r recorded) eachCut(every int, yield func(cut) bool) {
	first := r.random.IntN(every)
	replay := disk.NewReplay(r.events, disk.Strict)
	seed := maphash.MakeSeed()
	seen := make(map[uint64]bool)
	fresh := func(tree disk.Tree) bool {
		var sum maphash.Hash
		sum.SetSeed(seed)
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			fmt.Fprintf(&sum, "%q %d ", name, len(tree[name]))
			_, _ = sum.Write(tree[name])
		}
		known := seen[sum.Sum64()]
		seen[sum.Sum64()] = true
		return !known
	}
	for n := range r.events {
		e, _ := replay.Next()
		if n%every != first {
			continue
		}
		moment, syncs := r.end, true
		if n+1 < len(r.events) {
			next := r.events[n+1]
			moment, syncs = next.At, next.Kind == disk.Sync || next.Kind == disk.SyncDir
		}
		name := fmt.Sprintf("%d %s %s", n, e.Kind, filepath.Base(e.Path))
		if syncs && !yield(cut{name + ", what was synced", replay.Safe(), moment}) {
			return
		}
		if e.Kind == disk.Sync || e.Kind == disk.SyncDir {
			continue // which leaves the disk as it was
		}
		if tree := replay.Torn(r.random, e); fresh(tree) && !yield(cut{name + ", what was written, torn", tree, moment}) {
			return
		}
		if tree := replay.Part(r.random); fresh(tree) && !yield(cut{name + ", a part", tree, moment}) {
			return
		}
	}
}

// Whenever the power fails while pqd creates its store, uses it, opens it again and
// compacts it, pqd starts on the disk, and every answer to a client still holds. Either
// items are small and every change of the disk is a cut, or they are large, so that logs
// are rotated and reused.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	if *flagCuts == 0 {
		t.Skip("no -pq.cuts: it needs a file system of its own, and takes minutes")
	}
	t.Run("small", func(t *testing.T) { record(t, pqd.Seeded(t), 25, 2000).judgeAll(t, *flagCuts) })
	t.Run("large", func(t *testing.T) { record(t, pqd.Seeded(t), 100, 200_000).judgeAll(t, (*flagCuts+99)/100) })
}

// perEvent is how many cuts there are behind an event at most.
const perEvent = 3

func (r recorded) judgeAll(t *testing.T, most int) {
	syncs := 0
	for _, e := range r.events {
		if e.Kind == disk.Sync || e.Kind == disk.SyncDir {
			syncs++
		}
	}
	t.Logf("%s; %d changes of the disk, %d syncs", history.Summary(r.operations), len(r.events)-syncs, syncs)
	judged, failed, seed := 0, 0, r.random.Uint64()
	batch := func(cuts []cut) {
		if !t.Run(fmt.Sprint(judged), func(t *testing.T) {
			for _, c := range cuts {
				judged++
				seed := seed + uint64(judged)
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					r.judge(t, c.tree, c.moment, seed)
				})
			}
		}) {
			failed++
		}
	}
	var waiting []cut
	for c := range r.cuts(max(1, perEvent*len(r.events)/most)) {
		if waiting = append(waiting, c); len(waiting) == 4 {
			batch(waiting)
			waiting = nil
		}
		if failed == 5 {
			break
		}
	}
	batch(waiting)
	t.Logf("%d power cuts", judged)
}
