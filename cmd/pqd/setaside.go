package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	streams "github.com/nats-io/nats.go/jetstream"
)

// The NATS servers of the nodes replicate which streams there are, and each stream, in
// groups with a directory each. A server that finds a damaged snapshot in one does not
// begin to replicate, and never will.
//
// Such a directory is set aside, which is safe on one condition: at some moment after
// this server has ceased to take part, every other node has all that its leader has
// committed. What is committed later is committed without this server. So nothing
// committed is in this directory alone, and a majority that includes this server, empty,
// includes another one that has everything. The group's term and vote stay: it votes
// once in a term.

// metaGroup is the group that replicates which streams there are.
const metaGroup = "_meta_"

// damagedGroups are the groups of this server that it cannot read.
type damagedGroups struct {
	mu    sync.Mutex
	found []string // by their names
	spare string   // the one that the others can spare; "": none
}

// snapshotCorrupt is what the server logs about such a group.
var snapshotCorrupt = regexp.MustCompile(`^RAFT \[\S+ - (\S+)\] Snapshot corrupt`)

// reads takes the name of a damaged group from a line of the server's log.
func (g *damagedGroups) reads(line string) {
	if m := snapshotCorrupt.FindStringSubmatch(line); m != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !slices.Contains(g.found, m[1]) {
			g.found = append(g.found, m[1])
		}
	}
}

// first is the first damaged group, or nothing.
func (g *damagedGroups) first() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.found) == 0 {
		return ""
	}
	return g.found[0]
}

// forget is for groups that are mended.
func (g *damagedGroups) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.found = nil
}

// canSpare notes that the others can spare a group.
func (g *damagedGroups) canSpare(group string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spare = group
}

// setAside sets aside what the others can spare, after the server has stopped.
func (g *damagedGroups) setAside(s settings, o *server.Options, log *slog.Logger) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.spare == "" {
		return nil
	}
	return setAside(s, o, g.spare, log)
}

// err describes the damage, or is nil.
func (g *damagedGroups) err() error {
	group := g.first()
	if group == "" {
		return nil
	}
	return fmt.Errorf("files of the NATS server of this node are damaged (the snapshot of %s): they are set aside when each other node has all that is committed, so start the others", group)
}

// groupsOf is where the groups of a node's server are.
func groupsOf(o *server.Options) string {
	name := o.SystemAccount
	if name == "" {
		name = server.DEFAULT_SYSTEM_ACCOUNT
	}
	return filepath.Join(o.StoreDir, server.JetStreamStoreDir, name, "_js_")
}

// keptOfGroup are the files of a group that stay: its term and vote, and who belongs to it.
var keptOfGroup = []string{"tav.idx", "peers.idx"}

// setAside moves the directory of a group away. The server must not run.
func setAside(s settings, o *server.Options, group string, log *slog.Logger) error {
	from := filepath.Join(groupsOf(o), group)
	to := ""
	for n := 1; ; n++ {
		to = filepath.Join(string(s.Data), fmt.Sprintf("damaged-%d-%s", n, group))
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err := os.Rename(from, to); err != nil {
		return fmt.Errorf("set damaged files of the NATS server aside: %w", err)
	}
	if err := os.MkdirAll(from, 0o700); err != nil {
		return err
	}
	for _, name := range keptOfGroup {
		content, err := os.ReadFile(filepath.Join(to, name))
		if err == nil {
			err = writeSynced(filepath.Join(from, name), content)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep the vote of a damaged group: %w", err)
		}
	}
	log.Error("damaged files of the NATS server of this node are set aside: it fetches from the other nodes what was in them. Look at the disk, and remove them when you like", "files", to)
	return nil
}

func writeSynced(path string, content []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}

// replica is what the leader of a group knows of another server in it.
type replica struct {
	name string
	all  bool // it has what is committed
}

// spared reports whether a group does not need what this node has of it: another one
// leads it, and each other one has all.
func (s *settings) spared(leader string, replicas []replica) bool {
	self, err := s.self()
	if err != nil || leader == "" || leader == self.name() {
		return false
	}
	for _, name := range s.Cluster.names() {
		if name != self.name() && name != leader && !slices.Contains(replicas, replica{name, true}) {
			return false
		}
	}
	return true
}

// startServer starts the embedded server, and mends what keeps a node's from starting.
func (d *daemon) startServer(ctx context.Context, embedded embeddedServer) (*server.Server, error) {
	srv, err := embedded.start(d.log)
	if err == nil || d.groups.first() != metaGroup {
		return srv, err
	}
	if err := d.mendMeta(ctx, err); err != nil {
		return nil, err
	}
	again, err := embeddedSettings(d.settings)
	if err != nil {
		return nil, err
	}
	again.secret, again.groups = d.secret, &d.groups
	d.groups.forget()
	return again.start(d.log)
}

const (
	// spareLimit bounds the wait for the other nodes; a service manager starts pqd again.
	spareLimit = time.Minute
	spareEvery = time.Second
)

// mendMeta sets the group aside without which the server does not start, as soon as the
// others can spare it. Until then it asks them by a server that stores nothing and takes
// no clients.
func (d *daemon) mendMeta(ctx context.Context, why error) error {
	asking, err := embeddedSettings(d.settings)
	if err != nil {
		return err
	}
	o := asking.options
	o.JetStream = false
	o.Host, o.Port, o.NoAuthUser = "127.0.0.1", server.RANDOM_PORT, "" // routes need a listener
	o.Websocket, o.MQTT, o.LeafNode = server.WebsocketOpts{}, server.MQTTOpts{}, server.LeafNodeOpts{}
	asking.secret, asking.groups = d.secret, new(damagedGroups)
	srv, err := asking.start(d.log)
	if err != nil {
		return errors.Join(why, err)
	}
	stop := sync.OnceFunc(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	defer stop()
	d.log.Warn("waiting until the other nodes can spare damaged files", "error", errors.Join(why, d.groups.err()))
	ctx, cancel := context.WithTimeout(ctx, spareLimit)
	defer cancel()
	for !d.metaSpared(ctx, srv) {
		select {
		case <-time.After(spareEvery):
		case <-ctx.Done():
			return errors.Join(why, d.groups.err())
		}
	}
	stop()
	return setAside(d.settings, o, metaGroup, d.log)
}

func (d *daemon) metaSpared(ctx context.Context, srv *server.Server) bool {
	ctx, cancel := context.WithTimeout(ctx, spareEvery)
	defer cancel()
	meta, err := metaLeader(ctx, srv)
	if err != nil {
		d.log.Debug("the other nodes do not say how they are", "error", err)
		return false
	}
	var all []replica
	for _, p := range meta.Replicas {
		all = append(all, replica{p.Name, p.Current && !p.Offline && p.Lag == 0})
	}
	return d.settings.spared(meta.Leader, all)
}

// mendStream notes that the others can spare the damaged group of a stream, and reports
// whether they can. It is set aside when the server has stopped.
func (m *member) mendStream(ctx context.Context) bool {
	group := m.daemon.groups.first()
	if group == "" || group == metaGroup {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, openLogLimit)
	defer cancel()
	api, err := streams.New(m.log)
	if err != nil {
		return false
	}
	for name := range api.StreamNames(ctx).Name() {
		info, err := m.daemon.streamSeen(ctx, m.log, name) // its leader answers
		if err != nil || info.Cluster == nil || info.Cluster.RaftGroup != group {
			continue
		}
		var all []replica
		for _, p := range info.Cluster.Replicas {
			all = append(all, replica{p.Name, p.Current && !p.Offline && p.Lag == 0})
		}
		if m.daemon.settings.spared(info.Cluster.Leader, all) {
			m.daemon.groups.canSpare(group)
			return true
		}
	}
	return false
}
