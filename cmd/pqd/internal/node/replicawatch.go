package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	streams "github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
)

// replicaWatch watches the replica of the log on the embedded NATS server.
type replicaWatch struct {
	storeLog *Log
	failed   chan<- error // an error after which this process has to end
}

// replicaEvery is the time between looks.
const replicaEvery = time.Second

// watch ends this process when its NATS server stops replicating the log. A new start mends that, if the
// disk has room again.
func (w *replicaWatch) watch(ctx context.Context) {
	look := time.NewTicker(replicaEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		if w.mendStream(ctx) {
			w.failed <- errors.New("damaged files of the NATS server of this node are set aside now: pqd ends, and fetches what was in them when it is started again; acknowledged items are safe")
			return
		}
		if err := w.storeLog.replica().Failed(); err != nil {
			w.failed <- fmt.Errorf("the disk of the log failed or is full: pqd ends; acknowledged items are safe: %w", err)
			return
		}
	}
}

// mendStream notes that the others can spare the damaged group of a stream, and reports whether they can. The group
// is set aside when the server has stopped.
func (w *replicaWatch) mendStream(ctx context.Context) bool {
	group := w.storeLog.broker.Groups().First()
	if group == "" || group == broker.MetaGroup {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, openLogLimit)
	defer cancel()
	api, err := streams.New(w.storeLog.nc)
	if err != nil {
		return false
	}
	for name := range api.StreamNames(ctx).Name() {
		info, err := w.storeLog.stream(ctx, name) // its leader answers
		if err != nil || info.Cluster == nil || info.Cluster.RaftGroup != group {
			continue
		}
		var all []broker.Replica
		for _, p := range info.Cluster.Replicas {
			all = append(all, broker.Replica{Name: p.Name, All: p.Current && !p.Offline && p.Lag == 0})
		}
		if broker.Spared(&w.storeLog.settings, info.Cluster.Leader, all) {
			w.storeLog.broker.Groups().CanSpare(group)
			return true
		}
	}
	return false
}
