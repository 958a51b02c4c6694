package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/room"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/store"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/protocol"
)

// terms are the times in which this node is active. In each of them it has a bridge; a follower takes no requests.
//
// Package cluster decides when this node may become active, and when its term is over. terms only give a term back: when no client
// reaches this node, when serving fails, when an operator asks for it, at a stop, and once when this node's copy is damaged.
type terms struct {
	needs     Needs
	name      string
	db        *cluster.DB
	fronts    *fronts
	handovers *handovers
	room      nodeRoom
	damage    *copyDamage

	bridge atomic.Pointer[bridge.Bridge] // of the term
	drain  context.Context               // bounds requests under way at a stop; set before the context of run ends
}

// run serves in each term of this node until ctx ends.
func (t *terms) run(ctx context.Context) {
	for {
		term, err := t.db.Term(ctx)
		if err != nil {
			return // ctx has ended
		}
		if t.needs.Link.Away() != nil {
			t.handovers.release(ctx) // no client reaches this node, so another one has to serve
			t.needs.Link.Await(ctx)
			continue
		}
		if err := t.serve(ctx, term); err != nil {
			t.needs.Logger.Error("serving the store failed: another pqd may take over", "epoch", term.Epoch(), "error", err)
			t.handovers.release(ctx)
		}
	}
}

// serve runs a bridge until the term or ctx ends. The memory of the bridge and of the store belongs to the term and
// ends with it.
func (t *terms) serve(ctx context.Context, term *cluster.Term) error {
	starting, cancel := untilOver(ctx, term)
	defer cancel()
	options := store.Options(t.needs.Settings)
	options.Exclusive, options.Followed = true, true // within the term, and by another node
	options.Full, options.Low = func(bytes int64) error { return t.room.admit(int(bytes)) }, t.room.low
	if written, known := term.LastWrite(); known {
		silence := time.Since(written)
		options.Downtime = &silence
	}
	front := t.fronts.latest()
	queues, err := fdbpq.Open(starting, term, options)
	var b *bridge.Bridge
	if err == nil {
		options := t.needs.Bridge
		options.Disk = room.DiskWith(options.Disk, t.room.last)
		options.Cluster, options.Room, options.Reserve, options.Last = front.ClusterEndpoint, t.room.admit, t.room.reserve, t.room.last
		b, err = bridge.Start(starting, front.nc, queues, options)
	}
	select {
	case <-term.Over():
		err = nil // another node has taken over
	case <-ctx.Done():
		err = nil
	default:
	}
	if err != nil {
		return err
	}
	if b != nil {
		t.attend(ctx, term, b, front, queues.ID())
	}
	return nil
}

// untilOver returns a context that ends with the term.
func untilOver(ctx context.Context, term *cluster.Term) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-term.Over():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// attend waits until the term is over, the connection is closed, or ctx ends, and drains the bridge.
func (t *terms) attend(ctx context.Context, term *cluster.Term, b *bridge.Bridge, front *front, storeID string) {
	s, log, numbers := &t.needs.Settings, t.needs.Logger, b.Collector()
	t.needs.Metrics.MustRegister(numbers)
	t.bridge.Store(b)
	log.Info("serving", "epoch", term.Epoch(), "store_id", storeID)
	event := protocol.ActiveEvent{Node: t.name, Epoch: term.Epoch()}
	if err := (bridge.ClusterOptions{Prefix: string(s.Prefix), Site: string(s.Site)}).AnnounceActive(front.nc, event); err != nil {
		log.Debug("event lost", "event", protocol.EventActive, "error", err)
	}
	drain := context.WithoutCancel(ctx)
	var asked *handover
	lost := false // the connection
	look := time.NewTicker(damageEvery)
	defer look.Stop()
	for serves := true; serves; {
		serves = false
		select {
		case <-term.Over():
			log.Warn("stopped serving: another pqd serves, or none can", "epoch", term.Epoch(), "because", term.Reason())
		case asked = <-t.handovers.asked:
			log.Info("stepping down", "epoch", term.Epoch(), "successor", asked.to)
		case <-front.ended:
			log.Warn("stopped serving: the connection to NATS is closed", "epoch", term.Epoch())
			lost = true
		case <-ctx.Done():
			drain = t.drain
		case <-look.C:
			asked = t.damage.handOver()
			serves = asked == nil
		}
	}
	drain, cancel := context.WithTimeout(drain, process.DrainLimit)
	defer cancel()
	t.bridge.Store(nil)
	if asked != nil || ctx.Err() != nil {
		t.handovers.handOver(ctx, drain, term, b, asked)
	}
	if err := b.Drain(drain); err != nil {
		log.Warn("draining the bridge failed", "error", err)
	}
	t.needs.Metrics.Unregister(numbers)
	if lost {
		t.handovers.release(ctx)
	}
}
