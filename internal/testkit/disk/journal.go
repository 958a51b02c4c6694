package disk

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Kind is a kind of step of a process.
type Kind string

const (
	Create   Kind = "create"
	MakeDir  Kind = "mkdir"
	Remove   Kind = "remove" // of a file or an empty directory
	Rename   Kind = "rename" // of a file or a directory, to the same or another directory
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Sync     Kind = "sync"           // of a file
	SyncDir  Kind = "sync directory" // of the names in it
	Read     Kind = "read"           // changes nothing, and is not recorded
)

// Event is a step that changed something, or made a change safe.
type Event struct {
	Kind Kind
	Path string        // from the root of the disk
	To   string        // of Rename
	At   time.Duration // by the clock of the disk, before it took effect

	node   int  // of Path at that time
	in, to name // of a change of names: the place of the name, and the place to which Rename moves it
	offset int64
	data   []byte
	size   int64
}

// Tree is the content of a disk: files by their paths, and directories, which are
// nil.
type Tree map[string][]byte

// Order is a file system's promise about changes of names.
type Order int

const (
	// Strict is the whole promise of POSIX: a change is safe when the directory was synced, for a move both
	// directories. Any part of the other changes may be on the disk.
	Strict Order = iota

	// Journaled is the promise of ext4, XFS and Btrfs: changes become safe in their order, and the sync of any file
	// or directory makes all earlier changes safe.
	Journaled
)

// Replay goes through the events again, and knows after each of them which changes are safe.
type Replay struct {
	events []Event
	order  Order
	safe   names
	loose  []change // in their order
	dirs   map[int]bool
	files  map[int]*contents
}

// contents is the content of a file.
type contents struct {
	safe  []byte
	loose []Event // writes and truncations since, in their order
}

// NewReplay begins with an empty disk.
func NewReplay(events []Event, order Order) *Replay {
	return &Replay{events: events, order: order, safe: make(names), dirs: map[int]bool{root: true}, files: make(map[int]*contents)}
}

// Next applies the next event. It returns false when there is none.
func (r *Replay) Next() (Event, bool) {
	if len(r.events) == 0 {
		return Event{}, false
	}
	e := r.events[0]
	r.events = r.events[1:]
	switch e.Kind {
	case Create, MakeDir, Remove, Rename:
		r.loose = append(r.loose, newChange(e))
		switch e.Kind {
		case Create:
			r.files[e.node] = &contents{}
		case MakeDir:
			r.dirs[e.node] = true
		}
	case Write, Truncate:
		f := r.file(e.node)
		f.loose = append(f.loose, e)
	case Sync:
		f := r.file(e.node)
		for _, loose := range f.loose {
			f.safe = loose.applied(f.safe, nil)
		}
		f.loose = nil
		if r.order == Journaled {
			r.settle(func(*change) bool { return true })
		}
	case SyncDir:
		r.settle(func(c *change) bool { return r.order == Journaled || c.synced(e.node) })
	}
	return e, true
}

// settle makes those changes of names safe for which is returns true.
func (r *Replay) settle(is func(*change) bool) {
	before := len(r.loose)
	kept := r.loose[:0]
	for _, c := range r.loose {
		if is(&c) {
			r.safe.apply(c.Event)
			continue
		}
		kept = append(kept, c)
	}
	if r.loose = kept; len(kept) < before {
		r.forget()
	}
}

// forget drops the contents of files that have no name any more.
func (r *Replay) forget() {
	named := make(map[int]bool)
	for _, node := range r.safe {
		named[node] = true
	}
	for _, c := range r.loose {
		named[c.node] = true
	}
	maps.DeleteFunc(r.files, func(file int, _ *contents) bool { return !named[file] })
}

// file is the contents of a file. The file may be in use without a name.
func (r *Replay) file(number int) *contents {
	f := r.files[number]
	if f == nil {
		f = &contents{}
		r.files[number] = f
	}
	return f
}

// sector is the unit that a disk writes whole.
const sector = 512

// applied returns the bytes with the sectors of a write that kept chooses; nil chooses all. It may change the
// bytes.
func (e Event) applied(bytes []byte, kept func() bool) []byte {
	if e.Kind == Truncate {
		if kept == nil || kept() {
			return resized(bytes, e.size)
		}
		return bytes
	}
	if kept == nil {
		bytes = resized(bytes, max(int64(len(bytes)), e.offset+int64(len(e.data))))
		copy(bytes[e.offset:], e.data)
		return bytes
	}
	for from := int64(0); from < int64(len(e.data)); {
		to := min(int64(len(e.data)), (e.offset+from)/sector*sector+sector-e.offset)
		if kept() {
			bytes = resized(bytes, max(int64(len(bytes)), e.offset+to))
			copy(bytes[e.offset+from:], e.data[from:to])
		}
		from = to
	}
	return bytes
}

func resized(bytes []byte, size int64) []byte {
	if size <= int64(len(bytes)) {
		return bytes[:size:size]
	}
	return append(bytes, make([]byte, size-int64(len(bytes)))...)
}

// Safe is the least that the disk holds: all synced data.
func (r *Replay) Safe() Tree { return r.cut(nil, nil) }

// Torn is all written data, up to a random sector of the last write.
func (r *Replay) Torn(random *rand.Rand, last Event) Tree {
	sectors := 0
	if last.Kind == Write {
		sectors = random.IntN(len(last.data)/sector + 1)
	}
	return r.cut(r.loose, func(e Event) func() bool {
		if last.Kind != Write || e.node != last.node || e.offset != last.offset || e.At != last.At {
			return nil
		}
		left := sectors
		return func() bool { left--; return left >= 0 }
	})
}

// Part is all synced data, and a random part of the rest.
func (r *Replay) Part(random *rand.Rand) Tree {
	share := random.Float64()
	kept := func() bool { return random.Float64() < share }
	var named []change
	for _, c := range r.loose {
		switch {
		case kept():
			named = append(named, c)
		case r.order == Journaled:
			return r.cut(named, func(Event) func() bool { return kept })
		}
	}
	return r.cut(named, func(Event) func() bool { return kept })
}

// cut is the content of the disk when the power fails: these changes of names, and of each write the sectors that
// written chooses for it.
func (r *Replay) cut(named []change, written func(Event) (kept func() bool)) Tree {
	all := maps.Clone(r.safe)
	for _, c := range named {
		all.apply(c.Event)
	}
	tree := make(Tree)
	for at, node := range all.paths() {
		if r.dirs[node] {
			tree[at] = nil
			continue
		}
		f := r.file(node)
		bytes := f.safe[:len(f.safe):len(f.safe)]
		if written != nil && len(f.loose) > 0 {
			bytes = slices.Clone(f.safe)
			for _, e := range f.loose {
				bytes = e.applied(bytes, written(e))
			}
		}
		tree[at] = append([]byte{}, bytes...)
	}
	return tree
}
