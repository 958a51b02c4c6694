package takeover

import (
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// RankPause is how long a member gives a member of lower rank to replace a lost one.
const RankPause = 150 * time.Millisecond

// Turn says which members are lost, and when it is the turn of a member to replace one.
type Turn struct {
	Lost []string
	Rank int  // how many members come before this one
	OK   bool // false: so many members are lost that nothing can replace them
}

// TurnOf is the turn of a member in a role, among others that it has heard. members is how many there are.
func TurnOf(name string, role peers.Role, others []peers.Peer, members int) Turn {
	var t Turn
	runs := 1
	for _, p := range others {
		switch {
		case p.Lost:
			t.Lost = append(t.Lost, p.Member)
		case p.Away():
		default:
			runs++
			if p.Stands() && (role == peers.Active || p.Member < name) {
				t.Rank++
			}
		}
	}
	slices.Sort(t.Lost)
	t.OK = 2*runs > members
	return t
}

// Comes reports whether it is the member's turn to replace an active member that is lost for a time.
func (t Turn) Comes(lost time.Duration) bool {
	return t.OK && lost >= time.Duration(t.Rank)*RankPause
}

// Invited reports whether a member need not wait for a sign of life: it has made the log, or the active member, of
// another process, has stepped down in its favour. successor is the member that the release names.
func Invited(h chain.Head, process chain.ID, successor, name string) bool {
	mine := h.Process == process
	return h.Entry == 1 && mine || h.Released && !mine && successor == name
}
