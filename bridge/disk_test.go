package bridge_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
)

// ailing is a disk that, on demand, has no room for tables or hangs.
type ailing struct {
	vfs.FS
	full    atomic.Bool
	hung    atomic.Pointer[chan struct{}] // what writing to the log waits for
	waiting chan struct{}                 // a value for each write that hangs
}

func newAiling() *ailing { return &ailing{FS: vfs.NewMem(), waiting: make(chan struct{}, 1<<10)} }

func (d *ailing) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if d.full.Load() && strings.HasSuffix(name, ".sst") {
		return nil, syscall.ENOSPC
	}
	f, err := d.FS.Create(name, category)
	if err == nil && strings.HasSuffix(name, ".log") {
		f = &ailingLog{f, d}
	}
	return f, err
}

// hang makes the log hang until the function that it returns is called, or the
// test ends.
func (d *ailing) hang(t *testing.T) (goOn func()) {
	on := make(chan struct{})
	d.hung.Store(&on)
	goOn = sync.OnceFunc(func() {
		d.hung.Store(nil)
		close(on)
	})
	t.Cleanup(goOn)
	return goOn
}

type ailingLog struct {
	vfs.File
	disk *ailing
}

func (f *ailingLog) Write(p []byte) (int, error) {
	if on := f.disk.hung.Load(); on != nil {
		f.disk.waiting <- struct{}{}
		<-*on
	}
	return f.File.Write(p)
}

// nearlyFull is how much a new store keeps in its log before it writes a table, less some
// requests.
const nearlyFull = 30 << 20

// serveOnDisk starts a bridge on an embedded store on this disk, in which that many bytes
// were written and cleared before.
func serveOnDisk(t *testing.T, disk vfs.FS, bytes int, log slog.Handler) *client {
	t.Helper()
	db, err := local.Open("store", local.Options{FS: disk, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	for ; bytes > 0; bytes -= kv.MaxValueSize {
		err := db.Update(t.Context(), func(tx kv.Tx) error {
			tx.Set([]byte("x"), make([]byte, kv.MaxValueSize))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err = db.Update(t.Context(), func(tx kv.Tx) error {
		tx.Clear([]byte("x"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, db, bridge.Options{Logger: slog.New(log), Exclusive: true})
}

// While the disk has no room for tables, changes are answered 503 with that reason, reads
// are served, and the bridge is not ready. Nothing acknowledged is lost, and the bridge
// continues when there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	disk, diary := newAiling(), newDiary()
	c := serveOnDisk(t, disk, nearlyFull, diary)
	disk.full.Store(true)
	body := strings.Repeat("x", 900_000)
	pushed := 0
	for refused := false; !refused; {
		m := c.raw("pq.jobs.push", body)
		if refused = m.Header.Get("Status") == "503"; !refused {
			c.acknowledged(m)
			pushed++
		}
	}
	m := c.refused(c.raw("pq.jobs.pop.min", ""), 503)
	if text := m.Header.Get("Nats-Service-Error"); !strings.Contains(text, "disk is full") {
		t.Errorf("the reason given is %q", text)
	}
	if m := c.raw("pq.jobs.peek.min", ""); string(m.Data) != body {
		t.Errorf("peek: %v, %d bytes", m.Header, len(m.Data))
	}
	diary.await(t, "store error")
	if err := c.env.Bridge.Ready(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("ready: %v", err)
	}

	disk.full.Store(false)
	diary.await(t, "the store commits again")
	for c.env.Bridge.Ready() != nil { // what was under way then fails late
		diary.await(t, "the store commits again")
	}
	for i := range pushed {
		if m := c.pop("pq.jobs.pop.min", ""); len(m.Data) != len(body) {
			t.Errorf("pop %d of %d: %d bytes", i, pushed, len(m.Data))
		}
	}
	c.refused(c.raw("pq.jobs.pop.min", ""), 404)
}

// While the disk hangs, every request is answered: requests that were being written when the
// disk continues, all others, reads included, with a refusal. The bridge is not ready.
func TestDiskHangs(t *testing.T) {
	nightly.Only(t, "TestBehindStuckCommit answers what waits behind a commit, and TestTransactionTimeout ends a transaction that hangs")
	t.Parallel()
	disk, diary := newAiling(), newDiary()
	c := serveOnDisk(t, disk, 0, diary)
	c.push("pq.jobs.push", "before")
	goOn := disk.hang(t)
	held := c.send("pq.jobs.push", "held")
	<-disk.waiting
	diary.await(t, "store error")
	if err := c.env.Bridge.Ready(); err == nil {
		t.Error("the bridge is ready while its disk hangs")
	}
	var others []answers
	for _, subject := range []string{"pq.jobs.info", "pq.jobs.peek.min", "pq.jobs.push", "pq.others.push", "pq.jobs.pop.min", "pq._sys.list"} {
		others = append(others, c.send(subject, ""))
	}
	for _, other := range others {
		c.refused(c.next(other), 503)
	}
	goOn()
	left := []string{"before", "held"}
	switch m := c.next(held); m.Header.Get("Nats-Service-Error-Code") {
	case "504": // a slow machine: the result was unknown then, and it was done
	case "503": // a slow machine: the disk had been given enough before it came
		left = left[:1]
	default:
		c.acknowledged(m)
	}
	diary.await(t, "the store commits again")
	for c.env.Bridge.Ready() != nil { // what was under way then fails late
		diary.await(t, "the store commits again")
	}
	for _, want := range left {
		if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != want {
			t.Errorf("popped %q, expected %q", m.Data, want)
		}
	}
	c.refused(c.raw("pq.jobs.pop.min", ""), 404)
}
