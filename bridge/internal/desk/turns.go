package desk

import (
	"cmp"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/subjects"
)

// Turns take turns of the requests of one kind.
type Turns[W Work] = turns.Turns[W, kv.Tx]

// turnsOthers is how many turns of one kind may be under way on a store behind a network: more hide its latency. On a store of
// this process alone one turn at a time costs least: two would be half as large.
const turnsOthers = 4

// NewTurns returns turns of requests of one kind. part makes the part of a queue, which has a copy of base. weight is how many
// items a request has. On a store that other processes can open, too, turns of a queue may overlap.
func NewTurns[W Work](base Lane, exclusive bool, kind request.Kind, overlap turns.Overlap[W], weight func(W) int,
	part func(*Lane) turns.Part[W, kv.Tx]) *Turns[W] {
	o := turns.Options[W, kv.Tx]{
		Limits:   base.Batch,
		Turns:    1,
		Rerun:    exclusive, // that run holds the lock of commits
		Early:    !exclusive,
		Slow:     cmp.Or(base.Slow, SlowBatch),
		Patience: base.Patience,
		Part: func() turns.Part[W, kv.Tx] {
			own := base
			return part(&own)
		},
		Update: base.update,
		Outage: failure.IsOutage,
		Ran:    func(weight int, took time.Duration) { base.Stats.Ran(kind, weight, took) },
		Weight: weight,
		Size:   func(w W) int { return w.Head().Size() },
		Waited: func(w W) time.Duration { return base.Waited(w) },
		Stuck:  func(late []W) { RefuseStuck(&base, late) },
	}
	if !exclusive {
		o.Turns, o.Overlap = turnsOthers, overlap
	}
	if base.Tenants != nil {
		o.Owner, o.Share = subjects.Tenant, tenantShare
	}
	return turns.New(o)
}
