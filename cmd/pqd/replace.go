package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/internal/jetstream"
	"github.com/pqbridge/pqbridge/protocol"
)

// replace puts a node in the place of a node that is lost for good: where the servers agree on streams, and as a
// replica of the log. It returns when the log has a replica there, which may still have to catch up.
func (m *member) replace(ctx context.Context, old, by string) (done protocol.Replaced, err error) {
	if m.embedded == nil {
		return done, &bridge.Refusal{Malformed: true, Text: "the log is in NATS servers outside: replace one of them with their own tools, such as nats server cluster peer-remove"}
	}
	if err := m.replaceable(old, by); err != nil {
		return done, err
	}
	if err := m.embedded.RemovePeer(ctx, old); err != nil {
		return done, err
	}
	m.log.Warn("a node takes the place of another one", "old", old, "new", by)
	for look := time.NewTicker(readyEvery); ; {
		replicas, err := m.replicas(ctx)
		if err == nil && slices.Contains(replicas, by) && !slices.Contains(replicas, old) {
			look.Stop()
			return protocol.Replaced{Old: old, New: by, Replicas: replicas}, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return done, fmt.Errorf("node %s is no member any more, and the log has no replica on %s yet: it has them on %s", old, by, strings.Join(replicas, ", "))
		}
	}
}

// replaceable refuses to replace a node that runs, and to replace a node by one that does not run.
func (m *member) replaceable(old, by string) error {
	runs := map[string]bool{m.name: true}
	for _, o := range m.db.Status().Members {
		runs[o.Name] = o.Runs
	}
	switch {
	case old == "" || by == "" || old == by:
		return &bridge.Refusal{Malformed: true, Text: fmt.Sprintf("found old %.80q and new %.80q: expected the names of two nodes", old, by)}
	case runs[old]:
		return &bridge.Refusal{Malformed: true, Text: fmt.Sprintf("node %s runs: expected one that is lost; stop it first, and it is known to be lost after 10 seconds", old)}
	case !runs[by]:
		return &bridge.Refusal{Malformed: true, Text: fmt.Sprintf("node %.80q does not run, or has another name: expected one that the status names", by)}
	}
	return nil
}

// replicas are the nodes that have a replica of the log.
func (m *member) replicas(ctx context.Context) ([]string, error) {
	info, err := m.storeLog.stream(ctx, jetstream.Stream(m.settings.Store.Place, m.db.Status().Generation))
	if err != nil || info.Cluster == nil {
		return nil, err
	}
	all := []string{info.Cluster.Leader}
	for _, r := range info.Cluster.Replicas {
		all = append(all, r.Name)
	}
	slices.Sort(all)
	return all, nil
}
