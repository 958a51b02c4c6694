package peers

import (
	"context"
	"time"
)

// NewMemory returns an empty memory of words.
func NewMemory() *memory { return &memory{last: make(map[string]time.Duration)} }

// Hears calls hears with a word that wants a turn.
func (m *memory) Hears(id string, at, now time.Duration) bool {
	return m.hears(word{kind: wordWant, at: at, id: id}, now)
}

// Len is the number of bridges that are remembered.
func (m *memory) Len() int { return len(m.last) }

// Rivals reports whether two bridges must not serve side by side.
func (i Identity) Rivals(o Identity) bool { return i.rivals(o) }

// Look looks for rivals once.
func (s *Standby) Look(ctx context.Context) { s.look(ctx) }
