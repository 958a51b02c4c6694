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

	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// GiveUpSpare gives the room of the file back to the disk.
func (e *engineOf) GiveUpSpare() error {
	if e.fails == nil {
		e.free.Add(e.has)
		e.has = 0
	}
	return e.fails
}

// A node gives the spare file of its copy up before its disk is full, since the log needs room, too. It is made again when there is
// room for it beyond the reserve, and until then its room counts as taken.
func TestSpareFileOfCopy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const least, want = 1600, 400
		var free atomic.Int64
		var gone error
		var log bytes.Buffer
		e := &engineOf{free: &free, want: want}
		c := newCopy(func() (int64, int64, error) { return free.Load(), least, gone }, slog.New(slog.NewTextHandler(&log, nil)))
		look := func(bytes int64, full, low, last bool, has int64) {
			t.Helper()
			free.Store(bytes)
			<-time.After(time.Second)
			why := c.Look()
			if (why != nil) != full || c.Exhausted() != nil != low || c.Last() != nil != last || e.has != has {
				t.Errorf("with %d bytes free and %d in the file: %v, %v, %v", bytes, e.has, why, c.Exhausted(), c.Last())
			}
		}
		look(10_000, false, false, false, 0)
		look(least-1, true, false, false, 0)
		look(least/2-1, true, true, false, 0)
		for bytes, is := range map[int64]bool{least / 4: false, least/4 - 1: true} {
			if free.Store(bytes); c.Low() != nil != is {
				t.Errorf("with %d bytes free: %v", bytes, c.Low())
			}
		}
		look(0, true, true, false, 0)
		c.Of(e)
		look(10_000, false, false, false, want)
		look(least, false, false, false, want)
		look(want/lastPart, true, true, false, want)
		look(want/lastPart-1, true, true, false, 0)
		if n := free.Load(); n != want+want/lastPart-1 {
			t.Errorf("%d bytes are free then", n)
		}
		look(free.Load(), true, true, true, 0)
		if why := c.Exhausted(); why != c.Last() || !strings.Contains(why.Error(), "less the spare file, which is to be made, and") || !strings.Contains(why.Error(), "only remove, purge and delete are served") {
			t.Error(why)
		}
		look(want+2*want/lastPart-1, true, true, true, 0)
		look(want+2*want/lastPart, true, true, false, 0)
		look(want+least/2-1, true, true, false, 0)
		look(want+least/2+least/2/moreRoom-1, true, false, false, 0)
		look(want+least/2+least/2/moreRoom, true, false, false, want)
		look(want/lastPart-1, true, true, false, 0)
		look(want+least, false, false, false, want)
		e.fails = errors.New("no such disk")
		look(0, true, true, true, want)
		e.fails, gone = nil, errors.New("gone")
		look(0, false, false, true, want)
		for _, text := range []string{"the spare file is given up", "the spare file cannot be removed", "room for settlements again"} {
			if n, most := strings.Count(log.String(), text), 2; n == 0 || n > most {
				t.Errorf("logged %q %d times", text, n)
			}
		}
	})
}

// A node that starts on a full disk gives the file up before anything else starts; on others, and without one, it goes on.
func TestGiveUpEarly(t *testing.T) {
	t.Parallel()
	const want = 400
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	file := filepath.Join(dir, local.SpareName)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		free  int64
		there bool
	}{{want, true}, {want / lastPart, true}, {want/lastPart - 1, false}, {0, false}} {
		err := giveUpEarly(dir, c.free, want, log)
		if _, gone := os.Stat(file); err != nil || (gone == nil) != c.there {
			t.Errorf("with %d bytes free: %v, %v", c.free, err, gone)
		}
	}
}
