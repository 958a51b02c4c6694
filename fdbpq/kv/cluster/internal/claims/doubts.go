package claims

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

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
