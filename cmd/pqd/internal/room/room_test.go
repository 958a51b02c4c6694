package room

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// A look at the disk is enough for many pushes. When half of what it saw is counted the next
// one comes early, and in between no more is admitted than it saw. While none is admitted the
// store frees what it can, if it has room for that, and not at every look.
func TestStoreRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const least, full = 160, "MiB are free on the disk of the store, less what memory has still to write there"
		var free, looks, reclaimed atomic.Int64
		free.Store(1000)
		var log bytes.Buffer
		r := newStore(func() (int64, int64) {
			looks.Add(1)
			return free.Load(), least
		}, &engineOf{reclaimed: &reclaimed}, slog.New(slog.NewTextHandler(&log, nil)))
		go r.watch(t.Context())
		admit := func(bytes int, why string) {
			t.Helper()
			err := r.Admit(bytes)
			if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
				t.Errorf("%d bytes: %v, expected %q", bytes, err, why)
			}
		}
		look := func(after time.Duration, want int) {
			t.Helper()
			before := looks.Load()
			<-time.After(after)
			synctest.Wait()
			if n := int(looks.Load() - before); n != want {
				t.Errorf("looked %d times in %s, expected %d", n, after, want)
			}
		}
		for range 420 {
			admit(1, "")
		}
		look(900*time.Millisecond, 0)
		look(100*time.Millisecond, 1)
		for range 840 {
			admit(1, "")
		}
		admit(1, "just come near")
		look(roomPause, 1)
		admit(840, "")
		free.Store(least - 1)
		look(roomPause, 1)
		for range 100 {
			admit(1, full)
		}
		look(roomPause, 0) // however many are refused
		look(fullEvery-roomPause, 1)
		reclaims := func(want int64) {
			t.Helper()
			if n := reclaimed.Swap(0); n != want {
				t.Errorf("reclaimed %d times, expected %d", n, want)
			}
		}
		reclaims(1)
		look(2*reclaimEvery-roomEvery, int((2*reclaimEvery-roomEvery)/fullEvery))
		reclaims(1)
		low := func(want bool) {
			t.Helper()
			look(fullEvery, 1)
			if why := r.Reserve(); (why != nil) != want || want && !strings.Contains(why.Error(), "below half of that only pops for good") {
				t.Errorf("with %d free the reserve alone is left: %v", free.Load(), why)
			}
		}
		free.Store(least / 2)
		low(false)
		free.Add(-1)
		low(true)
		free.Store(least/2 + least/2/moreRoom - 1)
		low(true)
		free.Add(1)
		low(false)
		for _, step := range []struct {
			free int64
			low  bool
		}{{least / 4, false}, {least/4 - 1, true}, {least/4 + least/4/moreRoom - 1, true}, {least/4 + least/4/moreRoom, false}} {
			free.Store(step.free)
			look(fullEvery, 1)
			if why := r.Low(); (why != nil) != step.low || step.low && !strings.Contains(why.Error(), "below a quarter of that no item returns") {
				t.Errorf("with %d free items do not return: %v", step.free, why)
			}
		}
		reclaimed.Store(0)
		free.Store(0)
		look(2*reclaimEvery, int(2*reclaimEvery/fullEvery))
		reclaims(0)
		free.Store(least + least/moreRoom - 1)
		look(fullEvery, 1)
		admit(1, full)
		free.Add(1)
		look(fullEvery, 1)
		admit(1, "")
		reclaimed.Store(0)
		look(2*reclaimEvery, int(2*reclaimEvery/roomEvery))
		reclaims(1) // what was drained until there was room
		free.Store(least + 10)
		look(roomEvery, 1)
		admit(11, "just come near") // a smaller item finds room
		look(2*reclaimEvery, int(2*reclaimEvery/roomEvery))
		if n := reclaimed.Swap(0); n == 0 {
			t.Error("reclaimed nothing for an item that is larger than the room")
		}
		for _, text := range []string{"nearly full", "has room for new items again"} {
			if n := strings.Count(log.String(), text); n != 1 {
				t.Errorf("logged %q %d times", text, n)
			}
		}
	})
}

// engineOf is an embedded store whose spare file takes room from the disk.
type engineOf struct {
	reclaimed *atomic.Int64
	free      *atomic.Int64
	has, want int64
	fails     error
	kept      int
	cleared   int // calls of ReclaimCleared
}

func (e *engineOf) Reclaim()                 { e.reclaimed.Add(1) }
func (e *engineOf) ReclaimCleared()          { e.cleared++ }
func (e *engineOf) Spare() (has, want int64) { return e.has, e.want }

func (e *engineOf) KeepSpare() error {
	e.kept++
	if e.fails == nil {
		e.free.Add(e.has - e.want)
		e.has = e.want
	}
	return e.fails
}

// The spare file is made when there is room for it beyond the reserve, and until then its room counts as taken. While hardly any room
// is free beside it, the store serves only what ends items.
func TestSpareFileOfStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const least, want = 1600, 400
		var free, reclaimed atomic.Int64
		free.Store(10_000)
		var log bytes.Buffer
		e := &engineOf{reclaimed: &reclaimed, free: &free, want: want}
		r := newStore(func() (int64, int64) { return free.Load(), least }, e, slog.New(slog.NewTextHandler(&log, nil)))
		if e.has != want || free.Load() != 10_000-want {
			t.Fatalf("at the start it has %d bytes, and %d are free", e.has, free.Load())
		}
		look := func(bytes int64, full, low, last bool, has int64) {
			t.Helper()
			free.Store(bytes)
			<-time.After(time.Second)
			r.update()
			if r.Admit(0) != nil != full || r.Reserve() != nil != low || r.Last() != nil != last || e.has != has {
				t.Errorf("with %d bytes free and %d in the file: %v, %v, %v", bytes, e.has, r.Admit(0), r.Reserve(), r.Last())
			}
		}
		look(least+100, false, false, false, want)
		look(want/lastPart, true, true, false, want)
		look(want/lastPart-1, true, true, true, want)
		if why := r.Reserve(); why != r.Last() || !strings.Contains(why.Error(), "only remove, purge and delete are served") || strings.Contains(why.Error(), "spare file") {
			t.Error(why)
		}
		reclaimed.Store(0)
		for range 10 {
			look(0, true, true, true, want)
		}
		if reclaimed.Load() != 0 || e.cleared == 0 {
			t.Errorf("with hardly any room it flushed %d times, and %d times what was cleared", reclaimed.Load(), e.cleared)
		}
		e.has = 0 // a write found no room
		look(want, true, true, true, 0)
		if reclaimed.Load() != 1 {
			t.Errorf("with the room of the file it flushed %d times", reclaimed.Load())
		}
		e.cleared = 0
		reclaimed.Store(0)
		for range 10 {
			look(0, true, true, true, 0)
		}
		if reclaimed.Load()+int64(e.cleared) != 0 {
			t.Error("a disk without any room was to be written to")
		}
		look(want+2*want/lastPart-1, true, true, true, 0)
		if why := r.Last(); !strings.Contains(why.Error(), "and the spare file") {
			t.Error(why)
		}
		look(want+2*want/lastPart, true, true, false, 0)
		look(want+least/2+least/2/moreRoom-1, true, true, false, 0)
		e.kept = 0
		look(want+least/2+least/2/moreRoom, true, false, false, want)
		if e.kept != 1 || free.Load() != least/2+least/2/moreRoom {
			t.Errorf("it was made %d times, and %d bytes are free", e.kept, free.Load())
		}
		e.has = 0
		look(want+least+least/moreRoom, false, false, false, want) // the file comes before new items
		e.has, e.fails = 0, errors.New("no quota")
		e.kept = 0
		look(want+least+least/moreRoom, false, false, false, 0)
		for range 30 {
			look(least, false, false, false, 0) // what cannot be made takes no room
		}
		if n := strings.Count(log.String(), "cannot be made"); e.kept != 1 || n != 1 {
			t.Errorf("it was tried %d times and logged %d times within half a minute", e.kept, n)
		}
		for range 40 {
			look(2*least, false, false, false, 0)
		}
		if e.kept != 2 {
			t.Errorf("it was tried %d times within a minute", e.kept)
		}
		if n := strings.Count(log.String(), "level=ERROR msg=\"the disk of the store is nearly full to the last byte"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
	})
}

// A store without a spare file knows no last room.
func TestStoreWithoutSpareFile(t *testing.T) {
	t.Parallel()
	e := &engineOf{reclaimed: new(atomic.Int64), free: new(atomic.Int64)}
	r := newStore(func() (int64, int64) { return -5, 100 }, e, slog.New(slog.DiscardHandler))
	if r.Last() != nil || r.Reserve() == nil || e.kept != 0 {
		t.Errorf("%v, %v, made %d times", r.Last(), r.Reserve(), e.kept)
	}
}

// The spare file is a quarter of what stays free, a sixteenth of the disk, and 64 MiB at most. It is there before the directory is.
func TestSizeOfSpareFile(t *testing.T) {
	t.Parallel()
	const m, g = 1 << 20, 1 << 30
	for size, want := range map[int64]int64{0: 0, 15 * m: 0, 100 * m: 100 * m / 16, 500 * m: 500 * m / 16, g: 64 * m, 1000 * g: 64 * m} {
		if got := (settings.MinFree{}).Spare(size); got != want {
			t.Errorf("of %d MiB it is %d bytes, expected %d", size/m, got, want)
		}
	}
	for least, want := range map[int64]int64{0: 0, 3 * m: 0, 40 * m: 10 * m, 100 * g: 64 * m} {
		if got := (settings.MinFree{Bytes: least, Set: true}).Spare(100 * g); got != want {
			t.Errorf("with %d MiB to stay free it is %d bytes, expected %d", least/m, got, want)
		}
	}
	if got := (settings.MinFree{Bytes: g, Set: true}).Spare(160 * m); got != 10*m {
		t.Errorf("on a disk of less than what is to stay free it is %d bytes", got)
	}
	dir := t.TempDir()
	if there := Spare(settings.MinFree{}, dir); there == 0 || there != Spare(settings.MinFree{}, filepath.Join(dir, "not", "there")) {
		t.Errorf("it is %d bytes", there)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := Spare(settings.MinFree{}, filepath.Join(file, "below")); n != 0 {
		t.Errorf("below a file it is %d bytes", n)
	}
}

// What stays free unless it is set: a twentieth of the disk, room for what the store has in
// memory, and never most of a small disk.
func TestMinFree(t *testing.T) {
	t.Parallel()
	const m, g = 1 << 20, 1 << 30
	for size, want := range map[int64]int64{0: 0, 100 * m: 25 * m, g: 256 * m, 5 * g: 256 * m, 10 * g: 512 * m, 20 * g: g, 1000 * g: g} {
		if got := (settings.MinFree{}).Of(size); got != want {
			t.Errorf("of %d MiB %d MiB stay free, expected %d", size/m, got/m, want/m)
		}
	}
	if got := (settings.MinFree{Bytes: 7, Set: true}).Of(100 * g); got != 7 {
		t.Errorf("%d bytes stay free, expected 7", got)
	}
}
