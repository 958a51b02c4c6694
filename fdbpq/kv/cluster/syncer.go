package cluster

import (
	"context"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/checkpoint"
)

// syncEvery is the time between syncs of the copy.
const syncEvery = time.Second

// syncer keeps the copy, and what lies beside it, on the disk.
type syncer struct {
	*member
	archive  *checkpoint.Archive
	furthest *furthest
}

// run makes the copy durable from time to time, until ctx ends. The log may drop entries that the disks of
// members have.
func (s syncer) run(ctx context.Context) {
	for pause(ctx, syncEvery) == nil {
		s.archive.Drop()
		s.furthest.save()
		now := s.self.now()
		if now.head.Entry == now.synced {
			continue
		}
		if err := s.copy().Sync(); err != nil {
			s.slog.Error("kv/cluster: syncing the copy failed", "err", err)
			continue
		}
		s.self.flushed(now.head.Generation, now.head.Entry)
	}
}
