package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	streams "github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
)

// damageEvery is the time between looks whether the copy of the active pqd is damaged.
const damageEvery = time.Second

// damaged describes damage in the files of the copy. It is nil if none is known: files are
// read when they are needed, and the active pqd needs most of them.
func (m *member) damaged() error {
	found := m.db.Damage()
	if len(found) == 0 {
		return nil
	}
	var files []string
	for _, f := range found {
		files = append(files, f.File)
	}
	return fmt.Errorf("files of this node's copy are damaged: %s: %s", strings.Join(files, ", "), m.settings.AnotherCopy())
}

// watchReplica ends this process when its NATS server stops replicating the log. A new start mends that, if the
// disk has room again.
func (m *member) watchReplica(ctx context.Context) {
	look := time.NewTicker(damageEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		if m.mendStream(ctx) {
			m.failed <- errors.New("damaged files of the NATS server of this node are set aside now: pqd ends, and fetches what was in them when it is started again; acknowledged items are safe")
			return
		}
		if err := m.storeLog.replica().Failed(); err != nil {
			m.failed <- fmt.Errorf("the disk of the log failed or is full: pqd ends; acknowledged items are safe: %w", err)
			return
		}
	}
}

// mendStream notes that the others can spare the damaged group of a stream, and reports whether they can. The group
// is set aside when the server has stopped.
func (m *member) mendStream(ctx context.Context) bool {
	group := m.embedded.Groups().First()
	if group == "" || group == broker.MetaGroup {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, openLogLimit)
	defer cancel()
	api, err := streams.New(m.storeLog.nc)
	if err != nil {
		return false
	}
	for name := range api.StreamNames(ctx).Name() {
		info, err := m.storeLog.stream(ctx, name) // its leader answers
		if err != nil || info.Cluster == nil || info.Cluster.RaftGroup != group {
			continue
		}
		var all []broker.Replica
		for _, p := range info.Cluster.Replicas {
			all = append(all, broker.Replica{Name: p.Name, All: p.Current && !p.Offline && p.Lag == 0})
		}
		if broker.Spared(&m.settings, info.Cluster.Leader, all) {
			m.embedded.Groups().CanSpare(group)
			return true
		}
	}
	return false
}

// handOverDamaged returns a hand-over to a pqd whose copy can be read, or nil. It hands over once: if the other
// copies are damaged too, moving between them does not help.
func (m *member) handOverDamaged() *handover {
	damage := m.damaged()
	if damage == nil || m.fled {
		return nil
	}
	to, err := m.db.Successor("")
	if err != nil {
		return nil // this copy is better than none
	}
	m.fled = true
	m.log.Error("handing over", "successor", to, "because", damage)
	return &handover{to: to, done: make(chan error, 1)}
}
