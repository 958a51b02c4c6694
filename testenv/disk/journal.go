package disk

import (
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"time"
)

// Kind is what a process did.
type Kind string

const (
	Create   Kind = "create"
	MakeDir  Kind = "mkdir"
	Remove   Kind = "remove"
	Rename   Kind = "rename"
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Sync     Kind = "sync"           // of a file
	SyncDir  Kind = "sync directory" // of the names in it
	Read     Kind = "read"           // changes nothing, and is not remembered
)

// Event is a step that changed something, or made a change safe.
type Event struct {
	Kind Kind
	Path string        // from the root of the disk
	To   string        // of Rename
	At   time.Duration // by the clock of the disk, before it took effect

	file   int // that Path meant
	offset int64
	data   []byte
	size   int64
}

// names reports whether the event changes what is in directories.
func (e Event) names() bool {
	return e.Kind == Create || e.Kind == MakeDir || e.Kind == Remove || e.Kind == Rename
}

// Tree is what is on a disk: files by their paths, and directories, which are
// nil.
type Tree map[string][]byte

// directory is the file number of all directories.
const directory = -1

// Replay goes through the events again, and knows after each of them what is safe
// and what is not.
type Replay struct {
	events []Event
	safe   map[string]int // file numbers by their names
	loose  []Event        // changes of names that are not safe, in their order
	files  map[int]*contents
}

// contents is what a file holds.
type contents struct {
	safe  []byte
	loose []Event // writes and truncations since, in their order
}

// NewReplay begins with an empty disk.
func NewReplay(events []Event) *Replay {
	return &Replay{events: events, safe: make(map[string]int), files: make(map[int]*contents)}
}

// Next does the next event. It is false when there is none.
func (r *Replay) Next() (Event, bool) {
	if len(r.events) == 0 {
		return Event{}, false
	}
	e := r.events[0]
	r.events = r.events[1:]
	switch {
	case e.names():
		r.loose = append(r.loose, e)
		if e.Kind == Create {
			r.files[e.file] = &contents{}
		}
	case e.Kind == Write, e.Kind == Truncate:
		f := r.file(e.file)
		f.loose = append(f.loose, e)
	case e.Kind == Sync:
		f := r.file(e.file)
		for _, loose := range f.loose {
			f.safe = loose.applied(f.safe, nil)
		}
		f.loose = nil
	case e.Kind == SyncDir:
		r.loose = slices.DeleteFunc(r.loose, func(loose Event) bool {
			if path.Dir(loose.Path) != e.Path {
				return false
			}
			loose.rename(r.safe)
			return true
		})
		r.forget()
	}
	return e, true
}

// forget drops the contents of files that have no name any more.
func (r *Replay) forget() {
	named := make(map[int]bool)
	for _, file := range r.safe {
		named[file] = true
	}
	for _, e := range r.loose {
		named[e.file] = true
	}
	maps.DeleteFunc(r.files, func(file int, _ *contents) bool { return !named[file] })
}

// file is the contents of a file, which may have no name but be in use.
func (r *Replay) file(number int) *contents {
	f := r.files[number]
	if f == nil {
		f = &contents{}
		r.files[number] = f
	}
	return f
}

// rename changes names, where that still makes sense.
func (e Event) rename(names map[string]int) {
	_, is := names[e.Path]
	switch {
	case e.Kind == Create, e.Kind == MakeDir:
		names[e.Path] = e.file
	case e.Kind == Remove:
		delete(names, e.Path)
	case is:
		names[e.To] = names[e.Path]
		delete(names, e.Path)
	}
}

// sector is what a disk writes whole.
const sector = 512

// applied returns the bytes with those sectors of a write that kept chooses; nil
// chooses all. It may change the bytes.
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

// Safe is what the disk holds at least: what was synced.
func (r *Replay) Safe() Tree { return r.cut(func() bool { return false }, nil) }

// Torn is all that was written, up to a random sector of the last write.
func (r *Replay) Torn(random *rand.Rand, last Event) Tree {
	sectors := 0
	if last.Kind == Write {
		sectors = random.IntN(len(last.data)/sector + 1)
	}
	return r.cut(func() bool { return true }, func(e Event) func() bool {
		if last.Kind != Write || e.file != last.file || e.offset != last.offset || e.At != last.At {
			return nil
		}
		left := sectors
		return func() bool { left--; return left >= 0 }
	})
}

// Part is what was synced, and a random part of what was not.
func (r *Replay) Part(random *rand.Rand) Tree {
	share := random.Float64()
	kept := func() bool { return random.Float64() < share }
	return r.cut(kept, func(Event) func() bool { return kept })
}

// cut is what the disk holds when the power fails: changes of names that named
// chooses, and of each write the sectors that written chooses for it.
func (r *Replay) cut(named func() bool, written func(Event) (kept func() bool)) Tree {
	names := make(map[string]int, len(r.safe))
	for name, file := range r.safe {
		names[name] = file
	}
	for _, e := range r.loose {
		if named() {
			e.rename(names)
		}
	}
	tree := make(Tree)
	for name, file := range names {
		switch {
		case !reachable(name, names):
		case file == directory:
			tree[name] = nil
		default:
			f := r.files[file]
			bytes := f.safe[:len(f.safe):len(f.safe)]
			if written != nil && len(f.loose) > 0 {
				bytes = slices.Clone(f.safe)
				for _, e := range f.loose {
					bytes = e.applied(bytes, written(e))
				}
			}
			tree[name] = append([]byte{}, bytes...)
		}
	}
	return tree
}

// reachable reports whether all directories above are there.
func reachable(name string, names map[string]int) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if file, is := names[dir]; !is || file != directory {
			return false
		}
	}
	return true
}
