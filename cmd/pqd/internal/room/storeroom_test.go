package room

import (
	"bytes"
	"log/slog"
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
		const least, full = 160, "MiB are free on the disk of the store, less what memory has still to write there, and"
		var free, looks, reclaimed atomic.Int64
		free.Store(1000)
		var log bytes.Buffer
		r := newStore(func() (int64, int64) {
			looks.Add(1)
			return free.Load(), least
		}, func() { reclaimed.Add(1) }, slog.New(slog.NewTextHandler(&log, nil)))
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
