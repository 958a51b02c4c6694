package local

import (
	"sync"
	"sync/atomic"
)

// watchSet has the watches that wait for a commit.
type watchSet struct {
	count  atomic.Int64 // lets commits skip an empty set
	mu     sync.Mutex
	byHash map[uint64][]*watch

	*history
}

type watch struct {
	key  []byte
	hash uint64
	done chan struct{}
	late bool // its own transaction has written the key since

	// Guarded by the set's lock.
	since   uint64 // commits up to this version do not fire the watch
	pending bool   // in the set
	ended   bool   // done is closed
}

func (s *watchSet) add(w *watch, since uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.ended {
		return
	}
	w.since, w.pending = since, true
	if s.byHash == nil {
		s.byHash = make(map[uint64][]*watch)
	}
	s.byHash[w.hash] = append(s.byHash[w.hash], w)
	s.count.Add(1)
}

// end ends the watch. It may be called repeatedly.
func (s *watchSet) end(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(w)
}

func (s *watchSet) endLocked(w *watch) {
	if w.ended {
		return
	}
	w.ended = true
	close(w.done)
	if !w.pending {
		return
	}
	w.pending = false
	s.count.Add(-1)
	list := s.byHash[w.hash]
	for i := range list {
		if list[i] == w {
			last := len(list) - 1
			list[i], list[last] = list[last], nil
			list = list[:last]
			break
		}
	}
	if len(list) == 0 {
		delete(s.byHash, w.hash)
	} else {
		s.byHash[w.hash] = list
	}
}

// fire ends the watches of the keys that the commit of version wrote. Two keys
// with the same hash end each other's watches, which is allowed.
func (s *watchSet) fire(version uint64, keys []keyEntry, ranges []keyRange) {
	if s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		s.fireLocked(version, s.byHash[k.hash], nil)
	}
	for i := range ranges {
		for _, list := range s.byHash {
			s.fireLocked(version, list, &ranges[i])
		}
	}
}

func (s *watchSet) fireLocked(version uint64, list []*watch, within *keyRange) {
	// Backwards: ending a watch moves the last one into its place.
	for i := len(list) - 1; i >= 0; i-- {
		if w := list[i]; w.since < version && (within == nil || within.contains(w.key)) {
			s.endLocked(w)
		}
	}
}

func (s *watchSet) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range s.byHash {
		for i := len(list) - 1; i >= 0; i-- {
			s.endLocked(list[i])
		}
	}
}

// activate activates the watches of a transaction that committed as c, or had nothing to
// commit if c is nil. Commits after the state that it read, which is pinned, nil if it read none, fire
// them at once.
func (s *watchSet) activate(watches []*watch, pinned, c *commit) {
	for _, w := range watches {
		if w.late {
			s.end(w)
			continue
		}
		from := pinned
		switch {
		case c != nil:
			s.add(w, c.version)
		default:
			if from == nil {
				from = s.applied.Load()
			}
			s.add(w, from.version)
		}
		if from == nil {
			continue
		}
		// Later commits fire the watch when they are applied.
		applied := s.applied.Load()
		for n := from.next.Load(); n != nil && n.version <= applied.version; n = n.next.Load() {
			if n != c && n.wrote(w.hash, w.key) {
				s.end(w)
				break
			}
		}
	}
}
