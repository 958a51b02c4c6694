package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/room"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// Init makes the store of PQ_STORE=jetstream:<name> that does not exist yet. The
// nodes of PQ_CLUSTER do that by themselves.
func Init(ctx context.Context, s settings.Settings, version string, log *slog.Logger) error {
	switch {
	case !s.Shared():
		return settings.Usagef("PQ_STORE=%s is made by pqd when it starts: expected PQ_STORE=jetstream:<name>", s.Store)
	case len(s.Cluster) > 0:
		return settings.Usagef("the nodes of PQ_CLUSTER make their store when all of them run: expected PQ_STORE=jetstream:<name> with NATS_URL")
	case s.Store.Stream.MaxBytes == 0:
		return settings.Usagef("PQ_STORE=%s: expected ?max_bytes=<size>, the largest size of the stream that is to be made", s.Store)
	}
	login, err := link.Login(s.NATS)
	if err != nil {
		return err
	}
	l, err := ConnectLog(ctx, s, log, nil, login)
	if err != nil {
		return err
	}
	defer l.Close()
	name, err := s.NodeName()
	if err != nil {
		return err
	}
	db, err := openCopy(l, name, version, true, room.NewCopy(l.settings, l.log))
	if err != nil {
		return err
	}
	for {
		changed, status := db.Changed(), db.Status()
		if status.Role == cluster.Stopped {
			return errors.Join(fmt.Errorf("PQ_STORE=%s: %s", s.Store, status.Reason), db.Close())
		}
		if status.Epoch > 0 {
			break
		}
		select {
		case <-changed:
		case <-time.After(readyEvery): // the epoch has no event
		case <-ctx.Done():
			return errors.Join(ctx.Err(), db.Close())
		}
	}
	if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
		return err
	}
	log.Info("the store is there", "store", s.Store.String())
	return CheckUsers(ctx, l)
}
