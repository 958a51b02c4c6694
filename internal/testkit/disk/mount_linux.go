package disk

import (
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Disk is a file system that is mounted.
type Disk struct {
	Dir string // where

	clock func() time.Duration

	mu       sync.Mutex
	events   []Event
	nodes    int           // files and directories made so far
	content  map[int]*file // files that have a name
	used     int64
	capacity int64
	fault    Fault
	failed   int // steps
	forgets  bool
}

// Fault decides the result of a step of the process before the step takes effect: zero lets it happen. Fault may
// take its time.
type Fault func(kind Kind, path string) syscall.Errno

// Mount mounts an empty disk whose events have times of this clock. It is unmounted when the test ends.
func Mount(t testing.TB, clock func() time.Duration) *Disk {
	t.Helper()
	d := &Disk{Dir: t.TempDir(), clock: clock, content: make(map[int]*file), capacity: 1 << 40}
	timeout := time.Duration(0) // the kernel caches nothing
	server, err := fs.Mount(d.Dir, &folder{disk: d, number: root}, &fs.Options{
		MountOptions: fuse.MountOptions{
			DirectMount: true, MaxWrite: 1 << 20, DisableXAttrs: true, DisableSplice: true, FsName: "pqbridge-test",
		},
		EntryTimeout: &timeout, AttrTimeout: &timeout,
	})
	if err != nil {
		t.Fatalf("mount a file system with FUSE: %v: expected Linux with /dev/fuse, and root or fusermount3", err)
	}
	t.Cleanup(func() {
		d.Fail(nil)
		if err := server.Unmount(); err != nil {
			t.Errorf("unmount %s: %v", d.Dir, err)
			_ = syscall.Unmount(d.Dir, syscall.MNT_FORCE) // so that nobody waits for it
		}
	})
	return d
}

// Events are the events so far.
func (d *Disk) Events() []Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.events)
}

// Forget stops the record of events: their bytes would stay in memory for good.
func (d *Disk) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events, d.forgets = nil, true
}

// Fail makes all further steps meet this fault; nil ends that.
func (d *Disk) Fail(fault Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = fault
}

// Resize gives the disk this many bytes, which may be fewer than it has in use.
func (d *Disk) Resize(capacity int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = capacity
}

// Used is how many bytes its files have.
func (d *Disk) Used() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.used
}

// admit asks the fault about a step.
func (d *Disk) admit(kind Kind, path string) syscall.Errno {
	d.mu.Lock()
	fault := d.fault
	d.mu.Unlock()
	if fault == nil {
		return fs.OK
	}
	errno := fault(kind, path)
	if errno != fs.OK {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.failed++
	}
	return errno
}

// Failed is how many steps have failed so far.
func (d *Disk) Failed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// next is the number of a new file or directory. The caller holds the lock.
func (d *Disk) next() int {
	d.nodes++
	return d.nodes
}

// note remembers an event. The caller holds the lock, and applies it.
func (d *Disk) note(e Event) {
	if d.forgets {
		return
	}
	e.At = d.clock()
	d.events = append(d.events, e)
}
