package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// distrust returns why this member must not become active although a majority may have the log:
// disks went back, or may have, and what was acknowledged may be on the disk of a member that is
// away. A member counts if nobody who runs remembers that its disk had more, and if it has caught
// up since its start, or somebody who runs has witnessed all that its disk had.
func (d *DB) distrust() string {
	if h := d.tail.head; h.Entry == 1 && h.Process == d.process {
		return "" // nothing was acknowledged in this generation
	}
	why, missing := d.doubts()
	if missing == "" {
		return why
	}
	return fmt.Sprintf(`%s, or run "pqd recover --without %s" to go on without what it has`, why, missing)
}

// doubts says why the members that run do not suffice, and which ones are away that may have
// what they lack.
func (d *DB) doubts() (why, missing string) {
	if d.options.LogReplica == nil || len(d.options.Members) < 2 {
		return "", ""
	}
	own, others := d.claims.disk()
	said := map[string]*claim{d.options.Name: &own}
	knows := map[string]map[string]claim{d.options.Name: others}
	all, _ := d.peers.heard()
	for _, p := range all {
		if p.runs(livingFor) && slices.Contains(d.options.Members, p.Member) {
			said[p.Member], knows[p.Member] = p.Claim, p.Knows
		}
	}
	var away, doubts []string
	sound, counting := 0, 0
	for _, name := range d.options.Members {
		now, runs := said[name]
		if !runs {
			away = append(away, name)
			continue
		}
		doubt, back := doubted(name, now, knows)
		if !back {
			sound++
		}
		if doubt == "" {
			counting++
		} else {
			doubts = append(doubts, doubt)
		}
	}
	majority := len(d.options.Members)/2 + 1
	switch {
	case counting >= majority, len(away) == 0 && sound >= majority:
		return "", ""
	case len(away) == 0:
		return strings.Join(doubts, "; ") + ": " + advice, ""
	}
	missing = strings.Join(away, ",")
	if len(doubts) == 0 {
		return "waiting for more nodes: no majority has said how far its disks are: start " + missing, ""
	}
	return fmt.Sprintf(`%s: what was acknowledged may be on %s alone: start that`, strings.Join(doubts, "; "), missing), missing
}

// doubted says why a member that runs may lack what its disk once had, or nothing. back says
// that its disk certainly went back.
func doubted(name string, now *claim, knows map[string]map[string]claim) (doubt string, back bool) {
	if now == nil {
		return "", false // a version that makes no claims
	}
	witnessed := false
	for _, other := range slices.Sorted(maps.Keys(knows)) {
		before, known := knows[other][name]
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
