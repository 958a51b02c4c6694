package cluster

import (
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/claims"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

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
		if p.Runs(peers.LivingFor, time.Now()) && slices.Contains(d.options.Members, p.Member) {
			run[p.Member] = claims.Said{Claim: p.Claim, Knows: p.Knows}
		}
	}
	return claims.Doubts(d.options.Members, run)
}
