package claims

import (
	"maps"
	"slices"
)

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
