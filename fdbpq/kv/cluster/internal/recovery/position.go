package recovery

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// Position is the position of a member in the log.
type Position struct {
	Name    string
	Answers bool // it has answered; otherwise the other fields are from its last message
	Known   bool // it was heard at least once
	Role    peers.Role
	Reason  string

	Generation, Epoch, Entry uint64 // Entry 0: it has no copy

	heartbeat peers.Heartbeat
}

func position(h peers.Heartbeat, answers bool, reason string) Position {
	return Position{
		Name: h.Member, Answers: answers, Known: true, Role: h.Role, Reason: reason,
		Generation: h.Generation, Epoch: h.Epoch, Entry: h.Entry, heartbeat: h,
	}
}

// differs reports whether two copies of a generation end with different entries of the
// same number.
func (p Position) differs(o Position) bool {
	return p.Known && o.Known && p.Entry > 0 && p.Generation == o.Generation && p.Entry == o.Entry &&
		p.heartbeat.Hash != o.heartbeat.Hash && p.heartbeat.Hash != "" && o.heartbeat.Hash != ""
}

// beyond names the entries that a member has, or may have, and the source lacks.
func (p Position) beyond(source Position) string {
	switch {
	case !p.Known:
		return fmt.Sprintf("what member %s alone has: it was not heard", p.Name)
	case p.Entry == 0 || p.Name == source.Name:
		return ""
	case p.heartbeat.Store != source.heartbeat.Store:
		return fmt.Sprintf("the store %s, of which member %s has a copy", p.heartbeat.Store, p.Name)
	case p.Generation > source.Generation:
		return fmt.Sprintf("%d entries of generation %d, which member %s has", p.Entry, p.Generation, p.Name)
	case p.Generation == source.Generation && p.Entry > source.Entry:
		return fmt.Sprintf("entries %d to %d, which member %s has", source.Entry+1, p.Entry, p.Name)
	case p.differs(source), p.Generation == source.Generation && p.Epoch > source.Epoch:
		return fmt.Sprintf("what member %s has in place of entries up to %d", p.Name, p.Entry)
	case !p.Answers:
		return fmt.Sprintf("what member %s alone has behind entry %d of generation %d, which it had when it was heard last", p.Name, p.Entry, p.Generation)
	}
	return ""
}
