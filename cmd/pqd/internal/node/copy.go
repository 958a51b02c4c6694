package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/room"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/store"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/jetstream"
)

// apartLimit bounds how long the active node appends nothing so that another server can become the leader of the
// log.
const apartLimit = 500 * time.Millisecond

// openCopy opens the copy of the store on this node. It serves nothing yet.
func openCopy(l *Log, name, version string, init bool, at *room.Copy) (*cluster.DB, error) {
	s := l.settings
	size := s.Store.Stream.MaxBytes
	if err := os.MkdirAll(string(s.Data), 0o700); err != nil {
		return nil, store.UnlessMade(string(s.Data), fmt.Errorf("PQ_DATA=%s: %w", s.Data, err))
	}
	if size == 0 && len(s.Cluster) > 0 {
		free, _, err := room.Free(string(s.Data))
		if err != nil {
			return nil, fmt.Errorf("PQ_DATA=%s: look how much room there is: %w", s.Data, err)
		}
		size = free / 2
	}
	replicas := s.Store.Stream.Replicas
	if len(s.Cluster) > 0 {
		replicas = len(s.Cluster)
	}
	if replicas == 1 {
		l.log.Warn("the stream has one replica: the store is lost with the disk of its server", "store", s.Store.String())
	}
	stream, err := jetstream.NewLog(l.nc, jetstream.Options{Name: s.Store.Place, Replicas: replicas, MaxBytes: size, Domain: s.Store.Stream.Domain})
	if err != nil {
		return nil, fmt.Errorf("PQ_STORE=%s: %w", s.Store, err)
	}
	members, err := jetstream.NewMembers(l.nc, s.Store.Place)
	if err != nil {
		return nil, fmt.Errorf("PQ_STORE=%s: %w", s.Store, err)
	}
	var replica func(generation, entry uint64) error
	var sheds func() bool
	var apart func(ctx context.Context, others []string)
	if r := l.replica(); l.broker != nil {
		replica = func(generation, entry uint64) error {
			missing := r.Missing(jetstream.Stream(s.Store.Place, generation), entry)
			if errors.Is(missing, broker.ErrNoReplica) {
				return fmt.Errorf("%w: %w", cluster.ErrNoPart, missing)
			}
			return cmp.Or(missing, r.Ready())
		}
		sheds = l.broker.Sheds
		apart = func(ctx context.Context, others []string) {
			ctx, cancel := context.WithTimeout(ctx, apartLimit)
			defer cancel()
			if err := r.MoveLeader(ctx, others); err != nil {
				l.log.Debug("the log is led by the server of the active node", "error", err)
			}
		}
	}
	db, err := cluster.Open(s.CopyDir(), stream, members, cluster.Options{
		Name: name, Members: s.Cluster.Names(), Version: version, Init: init, DiskFull: at.Look,
		LogReplica: replica, Apart: apart, Sheds: sheds, Silence: time.Duration(s.Silence),
		Replica: local.Options{Spare: room.Spare(s.MinFree, string(s.Data)), Log: l.log, Fatal: func(err error) { store.GiveUp(l.log, err) }},
	})
	if err != nil {
		return nil, fmt.Errorf("PQ_STORE=%s: %w", s.Store, store.AdviseDamage(err, s))
	}
	return db, nil
}

// copyDamage is damage in the files of this node's copy. The active node hands over to a node with another copy. The copy itself
// stays as it is until an operator moves it away: then package cluster fetches another one when pqd starts.
type copyDamage struct {
	log      *slog.Logger
	settings settings.Settings
	db       *cluster.DB
	fled     bool // has handed over; only the goroutine of terms uses it
}

// damageEvery is the time between looks whether the copy of the active node is damaged.
const damageEvery = time.Second

// err describes the damage. It is nil if none is known: files are read when they are needed, and the active pqd needs most of
// them.
func (d *copyDamage) err() error {
	found := d.db.Damage()
	if len(found) == 0 {
		return nil
	}
	var files []string
	for _, f := range found {
		files = append(files, f.File)
	}
	return fmt.Errorf("files of this node's copy are damaged: %s: %s", strings.Join(files, ", "), d.settings.AnotherCopy())
}

// handOver returns a hand-over to a node whose copy can be read, or nil. It hands over once: if the other copies are
// damaged too, moving between them does not help.
func (d *copyDamage) handOver() *handover {
	damage := d.err()
	if damage == nil || d.fled {
		return nil
	}
	to, err := d.db.Successor("")
	if err != nil {
		return nil // this copy is better than none
	}
	d.fled = true
	d.log.Error("handing over", "successor", to, "because", damage)
	return &handover{to: to, done: make(chan error, 1)}
}
