package cluster

import (
	"fmt"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/claims"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
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
	own := d.ledger.read()
	run := map[string]claims.Said{d.options.Name: {Claim: &own.Own, Knows: own.Others}}
	all, _ := d.peers.Heard()
	for _, p := range all {
		if p.Runs(peers.LivingFor) && slices.Contains(d.options.Members, p.Member) {
			run[p.Member] = claims.Said{Claim: p.Claim, Knows: p.Knows}
		}
	}
	return claims.Doubts(d.options.Members, run)
}
