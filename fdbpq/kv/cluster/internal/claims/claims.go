package claims

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

// Claim is a disk's announcement of its state. A life begins when the member has caught up with an active member
// after a start: its disk then has all entries, whatever state it had before.
type Claim struct {
	Life  uint64 `json:"life"`  // number of the life; 0: the disk had none
	ID    string `json:"id"`    // of the life, random
	Count uint64 `json:"count"` // of claims within the life
	Entry uint64 `json:"entry"` // in the copy, for people

	// Lives says that this process began the life. Otherwise an earlier process did, and the disk may have gone
	// back since.
	Lives bool `json:"lives,omitempty"`

	// Witnesses are the members whose disks had this life's claim when another member was last heard. Entries may
	// follow that the others do not know.
	Witnesses []string `json:"witnesses,omitempty"`
}

// contradicts reports whether a disk that made the claim c cannot make the claim now.
func (c Claim) contradicts(now Claim) bool {
	switch {
	case now.Lives && now.ID != c.ID:
		return false
	case now.Life != c.Life:
		return now.Life < c.Life
	}
	return now.ID != c.ID || now.Count < c.Count
}

// Said is what a member that runs says of disks.
type Said struct {
	Claim *Claim           // of its own disk; nil: it runs a version that makes no claims
	Knows map[string]Claim // what it remembers of other disks
}

// Doubts says why the members that run do not suffice although they may be a majority, and names the absent members
// that may have the missing entries, unless too few have said anything. Both are empty if nothing is in doubt.
//
// A member counts if no running member remembers that its disk had more, and if it has caught up since its start, or a
// running member has witnessed all entries of its disk.
func Doubts(members []string, run map[string]Said) (why, missing string) {
	var away, doubts []string
	sound, counting := 0, 0
	for _, name := range members {
		if _, runs := run[name]; !runs {
			away = append(away, name)
			continue
		}
		doubt, back := doubted(name, run)
		if !back {
			sound++
		}
		if doubt == "" {
			counting++
		} else {
			doubts = append(doubts, doubt)
		}
	}
	majority := len(members)/2 + 1
	switch {
	case counting >= majority, len(away) == 0 && sound >= majority:
		return "", ""
	case len(away) == 0:
		return strings.Join(doubts, "; ") + ": " + chain.Advice, ""
	}
	missing = strings.Join(away, ",")
	if len(doubts) == 0 {
		return "waiting for more nodes: no majority has said how far its disks are: start " + missing, ""
	}
	return fmt.Sprintf(`%s: what was acknowledged may be on %s alone: start that`, strings.Join(doubts, "; "), missing), missing
}

// doubted says why a running member may lack entries that its disk once had, or nothing. back says that its disk
// certainly went back.
func doubted(name string, run map[string]Said) (doubt string, back bool) {
	now := run[name].Claim
	if now == nil {
		return "", false // it runs a version that makes no claims
	}
	witnessed := false
	for _, other := range slices.Sorted(maps.Keys(run)) {
		before, known := run[other].Knows[name]
		switch {
		case other == name:
		case before.contradicts(*now):
			return fmt.Sprintf("the disk of node %s has gone back or was replaced: node %s remembers that it had entry %d", name, other, before.Entry), true
		case slices.Contains(now.Witnesses, other) && (known || now.Life == 0):
			witnessed = true
		}
	}
	if now.Lives || witnessed {
		return "", false
	}
	return fmt.Sprintf("node %s has started anew, and no node that runs knows whether its disk has all that it had", name), false
}

// Ledger has the claims on a member's disk: its own, and those that it remembers of other disks. Nobody changes the
// map and the lists of a ledger.
type Ledger struct {
	Own    Claim            `json:"own"`
	Others map[string]Claim `json:"others"`
}

// Word is what another member said of disks when it was heard last.
type Word struct {
	Member    string
	Runs      bool   // it was heard so lately that it is a witness
	HasPart   bool   // its disk may have a part of the log
	Claim     *Claim // of its own disk; nil: it makes none
	Remembers Claim  // what it remembers of the disk that has the ledger
}

// Next returns the ledger that the disk should have, and whether other members wait for it. life is the id of the life
// that begins now, or nothing, and entry the last one in the copy.
func (l Ledger) Next(others []Word, life string, entry uint64) (next Ledger, urgent bool) {
	own := l.Own
	remembered := maps.Clone(l.Others)
	if remembered == nil {
		remembered = make(map[string]Claim)
	}
	var runs, know []string
	alone := true
	most := own.Life
	for _, w := range others {
		most = max(most, w.Remembers.Life)
		if w.Runs {
			runs = append(runs, w.Member)
			if w.HasPart {
				alone = false
				if w.Remembers.ID == own.ID {
					know = append(know, w.Member)
				}
			}
		}
		if now := w.Claim; now != nil && now.Life > 0 && !remembered[w.Member].contradicts(*now) {
			urgent = urgent || remembered[w.Member].ID != now.ID
			remembered[w.Member] = Claim{Life: now.Life, ID: now.ID, Count: now.Count, Entry: now.Entry}
		}
	}
	witnesses := own.Witnesses
	switch {
	case life != "":
		own = Claim{Life: most + 1, ID: life, Lives: true}
		witnesses, urgent = nil, true
	case alone: // nothing is acknowledged without company
	case own.Lives:
		witnesses = know
	default:
		witnesses = slices.DeleteFunc(slices.Clone(witnesses), func(name string) bool { return !slices.Contains(runs, name) })
	}
	slices.Sort(witnesses)
	urgent = urgent || !slices.Equal(witnesses, own.Witnesses)
	own.Witnesses = witnesses
	if own.Lives { // otherwise the claim stays as an earlier process left it
		own.Entry = entry
		own.Count++
	}
	return Ledger{Own: own, Others: remembered}, urgent
}
