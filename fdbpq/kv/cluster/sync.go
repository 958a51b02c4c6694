package cluster

import (
	"context"
	"time"
)

const syncEvery = time.Second

// syncReplica makes the copy durable from time to time, until ctx ends.
func (d *DB) syncReplica(ctx context.Context) {
	for pause(ctx, syncEvery) == nil {
		entry := d.status.entry()
		if entry == d.status.heartbeat().Synced {
			continue
		}
		if err := d.replica.Sync(); err != nil {
			d.slog.Error("kv/cluster: the copy cannot be synced", "err", err)
			continue
		}
		d.status.flushed(entry)
	}
}
