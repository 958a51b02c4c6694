package peers

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/nats-io/nats.go"
)

// NewMemory returns an empty memory of words.
func NewMemory() *memory { return &memory{last: make(map[string]time.Duration)} }

// Hears records a word.
func (m *memory) Hears(id string, at, now time.Duration) bool { return m.hears(id, at, now) }

// Len is the number of bridges that are remembered.
func (m *memory) Len() int { return len(m.last) }

// NewMembers returns no members.
func NewMembers() *members { return &members{heard: make(map[string]time.Duration)} }

// Add adds a member.
func (m *members) Add(id string, now time.Duration) { m.add(id, now) }

// Len is the number of members.
func (m *members) Len() int { return len(m.heard) }

// Rivals reports whether two bridges must not serve side by side.
func (i Identity) Rivals(o Identity) bool { return i.rivals(o) }

// Look looks for rivals once.
func (s *Standby) Look(ctx context.Context) { s.look(ctx) }

// OwnerOf is the owner of a queue among bridges, as the first of them sees it.
func OwnerOf(queue string, ids ...string) string {
	m := NewMembers()
	for _, id := range ids[1:] {
		m.add(id, time.Hour)
	}
	return m.owner(queue, ids[0], time.Hour)
}

// Sealed is a message that passes a request on, as of a store time.
func (o *Owners) Sealed(to string, at int64, request *nats.Msg) []byte {
	return o.passing.sealer.seal(to, passed{from: o.id, at: time.Duration(at), requests: []*nats.Msg{request}})
}

// Opened is how many requests a message to the bridge has.
func (o *Owners) Opened(data []byte) int {
	p, _ := o.passing.sealer.open(o.id, data)
	return len(p.requests)
}

// Taken is the answer of the bridge that it has taken the requests in a message of another one.
func (o *Owners) Taken(to string, sent []byte) []byte {
	at := time.Duration(binary.BigEndian.Uint64(sent))
	return o.sealer.seal(answerTo(to), word{kind: wordTaken, at: at, id: o.id})
}

// Word is a word of the bridge about a queue, with the time of a message as its own.
func (o *Owners) Word(queue string, kind byte, sent []byte) []byte {
	at := time.Duration(binary.BigEndian.Uint64(sent))
	return o.sealer.seal(queue, word{kind: kind, at: at, id: o.id})
}

// Open is how many questions wait for their answers.
func (s *Survey) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Quiet is how many processes nobody waits for.
func (s *Survey) Quiet() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.quiet)
}

// Heard is how many bridges are remembered that have asked. Nothing may be on its way.
func (s *Survey) Heard() int { return len(s.heard.last) }
