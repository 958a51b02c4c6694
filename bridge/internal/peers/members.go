package peers

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

const (
	// announceEvery is how often a bridge announces itself, memberTime how long the others believe it. Together
	// they are less than two seconds, after which another bridge pops the queues of a bridge that has died.
	announceEvery = 500 * time.Millisecond
	memberTime    = 1500 * time.Millisecond
)

// members are the other bridges on a store that are there.
type members struct {
	heard map[string]time.Duration // store time of this bridge, by id
}

// add notes that a bridge is there.
func (m *members) add(id string, now time.Duration) {
	if _, known := m.heard[id]; !known && len(m.heard) >= maxHeard {
		if m.dropSilent(now); len(m.heard) >= maxHeard {
			return
		}
	}
	m.heard[id] = now
}

func (m *members) dropSilent(now time.Duration) {
	for id, at := range m.heard {
		if now-at > memberTime {
			delete(m.heard, id)
		}
	}
}

// has reports whether a bridge is there.
func (m *members) has(id string) bool {
	_, known := m.heard[id]
	return known
}

// remove notes that a bridge has gone.
func (m *members) remove(id string) { delete(m.heard, id) }

// owner returns the bridge that pops a queue for all. Bridges that hear the same members agree on it. Queues are
// spread evenly, and when a bridge comes or goes, only its own queues move.
func (m *members) owner(queue, self string, now time.Duration) string {
	m.dropSilent(now)
	best, most := self, rank(queue, self)
	for id := range m.heard {
		if r := rank(queue, id); r > most || r == most && id > best {
			best, most = id, r
		}
	}
	return best
}

func rank(queue, id string) uint64 {
	sum := sha256.Sum256([]byte(queue + " " + id))
	return binary.BigEndian.Uint64(sum[:])
}

const (
	// wordAge is how far the time of a word may be from this bridge's. Processes on one store agree on its time to
	// within a second.
	wordAge = 10 * time.Second

	// maxHeard bounds the bridges that are remembered: a store has few.
	maxHeard = 256
)

// memory distinguishes new words from copies. It forgets words older than wordAge, which are refused because of
// their age.
type memory struct {
	last map[string]time.Duration // by bridge: the time of the last word heard
}

// hears records a word of a bridge, and reports whether it is new.
func (m *memory) hears(id string, at, now time.Duration) bool {
	if (at-now).Abs() > wordAge || at <= m.last[id] {
		return false
	}
	if _, known := m.last[id]; !known && len(m.last) >= maxHeard {
		for other, last := range m.last {
			if now-last > wordAge {
				delete(m.last, other)
			}
		}
		if len(m.last) >= maxHeard {
			return false
		}
	}
	m.last[id] = at
	return true
}
