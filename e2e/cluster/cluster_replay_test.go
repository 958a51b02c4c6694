package cluster_test

import (
	"cmp"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

var flagReplay = flag.Int64("pq.replay", 0, "megabytes of a log that a pqd without a copy replays; 0: none")

// A pqd that has lost its copy replays a long log, and is killed ten times on its way. It
// ends, each start goes on where the one before was, memory stays bounded, and all items
// are there that were acknowledged and left.
func TestReplay(t *testing.T) {
	t.Parallel()
	if *flagReplay == 0 {
		t.Skip("no -pq.replay")
	}
	s := pqd.NewStreamStore(t, strconv.FormatInt(*flagReplay*5/4+64, 10)+"M") // pushes are refused at 90 %
	s.Init(t)
	p := testenv.Daemon(t, s.Env("a")...)
	p.Move(s.Work + "/a")
	r := &replay{s: s, p: p, random: pqd.Seeded(t)}
	r.fill(t)
	r.lose(t)

	const kills = 10
	begins, moments := uint64(0), r.moments(kills)
	for i, moment := range moments {
		p.Begin(t)
		began := time.Now()
		if r.random.IntN(4) == 0 { // while it opens what it has
			select {
			case <-time.After(rand.N(200 * time.Millisecond)):
			case <-p.Exited():
			}
		} else {
			begins = r.await(t, moment, begins)
		}
		p.Kill(t)
		t.Logf("kill %d, %s after the start, at entry %d of %d", i+1, time.Since(began).Round(time.Millisecond), r.at, r.last)
	}
	p.Begin(t)
	r.await(t, r.last, begins)
	p.AwaitReady(t)
	r.expectItems(t)
	again := float64(r.again) / float64(r.last)
	t.Logf("%d kills: %.0f %% of the entries were read again", kills, 100*again)
	if again > 0.5 {
		t.Error("the starts did not go on where the ones before were")
	}

	p.Kill(t)
	r.lose(t)
	p.Begin(t)
	began := time.Now()
	r.await(t, r.last, 0)
	took := time.Since(began)
	megabytes := float64(r.bytes) / 1e6
	t.Logf("without a kill %.0f MB in %d entries took %s: %.0f MB/s, %.0f entries a second; pqd had %d MB of memory at most",
		megabytes, r.last, took.Round(time.Millisecond), megabytes/took.Seconds(), float64(r.last)/took.Seconds(), r.memory>>20)
	if r.memory > replayMemory {
		t.Errorf("pqd had %d MB of memory", r.memory>>20)
	}
	p.AwaitReady(t)
	p.Stop(t)
}

// replayMemory is what a pqd may have that replays, however long the log is.
const replayMemory = 1 << 30

// replay is a pqd that replays a log.
type replay struct {
	s      *pqd.StreamStore
	p      *testenv.Process
	random *rand.Rand

	left   []leftItem // what has to be there, in the order of pops
	bytes  uint64     // of the log
	last   uint64     // entry
	at     uint64     // the entry that pqd had when it was looked at last
	again  uint64     // how many entries were read more than once
	memory int64      // that it had at most
}

type leftItem struct {
	priority int64
	payload  string
}

// fill writes to the log, mostly items that are gone soon.
func (r *replay) fill(t *testing.T) {
	nc := r.p.Connect(t)
	c, err := client.New(nc, client.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	gone, left := c.Queue("gone"), c.Queue("left")
	content := make([]byte, 64<<10)
	for i := range content {
		content[i] = byte(r.random.Uint32())
	}
	began, next := time.Now(), 0
	for round := 1; r.bytes < uint64(*flagReplay)<<20; round++ {
		var items []client.NewItem
		for room := 900 << 10; ; {
			n := r.random.IntN(len(content))
			if room -= n; room < 0 {
				break
			}
			items = append(items, client.NewItem{Payload: content[:n]})
		}
		if _, err := gone.PushMany(t.Context(), items...); err != nil {
			t.Fatal(err)
		}
		for range 1 + r.random.IntN(8) {
			next++
			item := leftItem{priority: r.random.Int64N(10), payload: strconv.Itoa(next) + strings.Repeat(".", r.random.IntN(500))}
			if _, err := left.Push(t.Context(), []byte(item.payload), client.Priority(item.priority)); err != nil {
				t.Fatal(err)
			}
			place, _ := slices.BinarySearchFunc(r.left, item.priority+1, func(a leftItem, priority int64) int { return cmp.Compare(a.priority, priority) })
			r.left = slices.Insert(r.left, place, item)
		}
		r.expectNext(t, left)
		if round%64 == 0 {
			if _, err := gone.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		stream, err := js.Stream(t.Context(), "PQ_pq_1")
		if err != nil {
			t.Fatal(err)
		}
		state := stream.CachedInfo().State
		if r.bytes, r.last = state.Bytes, state.LastSeq; state.FirstSeq != 1 {
			t.Fatalf("the log begins with entry %d", state.FirstSeq)
		}
	}
	if _, err := gone.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MB in %d entries took %s; %d items are left", r.bytes>>20, r.last, time.Since(began).Round(time.Second), len(r.left))
}

// lose has the process killed, and its copy removed. The log is all that is left.
func (r *replay) lose(t *testing.T) {
	t.Helper()
	if r.p.Running() {
		r.p.Kill(t)
	}
	if err := os.RemoveAll(r.p.Dir); err != nil {
		t.Fatal(err)
	}
	r.at = 0
}

// moments are entries at which the process is killed.
func (r *replay) moments(count int) (entries []uint64) {
	for range count {
		entries = append(entries, 1+r.random.Uint64N(r.last))
	}
	slices.Sort(entries)
	return entries
}

// await waits until the process has an entry, and returns the entry with which it began,
// which is at least the one with which the start before began.
func (r *replay) await(t *testing.T, entry, before uint64) (begins uint64) {
	t.Helper()
	begun := false
	for moved := time.Now(); !begun || r.at < entry; {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-r.p.Exited():
			t.Fatal("pqd ended")
		}
		page := r.p.Page(t, "/metrics")
		if !strings.Contains(page, "\npq_cluster_entry ") {
			if time.Since(moved) > testenv.Patience() {
				t.Fatal("pqd does not say where it is")
			}
			continue
		}
		now := uint64(pqd.Metric(t, page, "pq_cluster_entry"))
		r.memory = max(r.memory, int64(pqd.Metric(t, page, "process_resident_memory_bytes")))
		switch {
		case !begun:
			if begun, begins = true, now; now < before {
				t.Errorf("this start begins with entry %d, the one before with entry %d", now, before)
			}
			r.again += max(r.at, now) - now
		case now < r.at:
			t.Errorf("pqd went back from entry %d to %d", r.at, now)
		}
		if now != r.at {
			r.at, moved = now, time.Now()
		} else if time.Since(moved) > testenv.Patience() {
			t.Fatalf("pqd stays at entry %d of %d", now, r.last)
		}
	}
	return begins
}

// expectNext pops an item that was left.
func (r *replay) expectNext(t *testing.T, queue *client.Queue) {
	t.Helper()
	item, err := queue.Pop(t.Context(), client.Min, client.Repeatable())
	if err != nil {
		t.Fatal(err)
	}
	if want := r.left[0]; item.Priority != want.priority || string(item.Payload) != want.payload {
		t.Fatalf("popped item %.9s of priority %d, expected %.9s of priority %d", item.Payload, item.Priority, want.payload, want.priority)
	}
	r.left = r.left[1:]
}

// expectItems looks at all items.
func (r *replay) expectItems(t *testing.T) {
	t.Helper()
	c, err := client.New(r.p.Connect(t), client.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	var found []leftItem
	for item, err := range c.Queue("left").List(t.Context(), client.ListOptions{Bodies: true}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, leftItem{item.Priority, string(item.Body)})
	}
	if !slices.Equal(found, r.left) {
		t.Errorf("%d items are there, expected %d, or they differ", len(found), len(r.left))
	}
	if _, err := c.Queue("gone").Peek(t.Context(), client.Min); !errors.Is(err, client.ErrEmpty) {
		t.Errorf("an item is there that was removed: %v", err)
	}
}
