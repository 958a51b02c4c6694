package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

// distrust returns the reason for which this member must not become active although a majority may have the log:
// disks went back to an old state, or may have, so acknowledged entries may be on the disk of a member that is
// away. A member counts if no running member remembers that its disk had more, and if it has caught up since its
// start, or a running member has witnessed all entries of its disk.
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

// doubts says why the running members do not suffice, and names the absent members that may have the missing
// entries.
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
func doubted(name string, now *claim, knows map[string]map[string]claim) (doubt string, back bool) {
	if now == nil {
		return "", false // it runs a version that makes no claims
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
