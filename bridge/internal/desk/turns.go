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

// Turns take turns of requests. Part does the work of one queue in a turn.
type (
	Turns = turns.Turns[Work, kv.Tx]
	Part  = turns.Part[Work, kv.Tx]
)

// Taking says which requests take turns together, and how.
type Taking struct {
	// Part makes the part of a queue for requests of a kind. The lane is its own.
	Part func(kind int, l *Lane) Part

	// Weight is how many items a request has. Nil: each has one.
	Weight func(Work) int

	// Ahead reports whether a request goes ahead of others. Nil: no request does.
	Ahead func(Work) bool

	// Overlap lets turns of a queue overlap where other processes can open the store, too.
	Overlap turns.Overlap[Work]
}

const (
	// turnsOthers is how many turns may be under way on a store behind a network: more hide its latency. On a store of this process
	// alone one turn at a time costs least: two would be half as large.
	turnsOthers = 4

	// tenantShare bounds the requests of one tenant in a turn. Other tenants wait for the end of it, so fewer requests are better for
	// them. The tenant itself then needs more transactions.
	tenantShare = 8

	// slowPart is how long the part of a queue in a turn may take. Measured in wall time, so on a busy machine some queues run alone
	// without need.
	slowPart = 20 * time.Millisecond
)

// NewTurns returns turns. Each part works on a copy of base.
func NewTurns(base Lane, exclusive bool, t Taking) *Turns {
	o := turns.Options[Work, kv.Tx]{
		Limits:   base.Batch,
		Turns:    1,
		Rerun:    exclusive, // that run holds the lock of commits
		Early:    !exclusive,
		Slow:     cmp.Or(base.Slow, slowPart),
		Patience: base.Patience,
		Part: func(kind int) Part {
			own := base
			return t.Part(kind, &own)
		},
		Update: base.Update,
		Outage: failure.IsOutage,
		Ran: func(done map[int]int, took time.Duration) {
			for kind, n := range done {
				base.Stats.Ran(request.Kind(kind), n, took)
			}
		},
		Weight: t.Weight,
		Size:   func(w Work) int { return w.Head().Size() },
		Ahead:  t.Ahead,
		Waited: base.Waited,
		Stuck:  func(late []Work) { RefuseStuck(&base, late) },
	}
	if t.Weight == nil {
		o.Weight = func(Work) int { return 1 }
	}
	if !exclusive {
		o.Turns, o.Overlap = turnsOthers, t.Overlap
	}
	if base.Tenants != nil {
		o.Owner, o.Share = subjects.Tenant, tenantShare
	}
	return turns.New(o)
}
