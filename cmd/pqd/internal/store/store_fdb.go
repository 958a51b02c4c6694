//go:build fdb

package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// openFDB connects to a cluster, and waits for it while it does not answer.
func openFDB(ctx context.Context, name settings.StoreName, log *slog.Logger) (kv.DB, prometheus.Collector, error) {
	var options fdb.Options
	if name.Prefix != "" {
		// As a packed tuple no prefix is the beginning of another one.
		options.Prefix = tuple.AppendString(nil, name.Prefix)
	}
	var db *fdb.DB
	passes := func(err error) bool { return errors.Is(err, kv.ErrUnavailable) }
	err := link.Patiently(ctx, log, "waiting for FoundationDB", passes, func() (err error) {
		db, err = fdb.Open(name.Place, options)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("PQ_STORE=%s: %w", name, err)
	}
	return db, fdbMetrics{db}, nil
}

// fdbMetrics are the client's numbers for Prometheus; the cluster reports its own.
type fdbMetrics struct {
	db *fdb.DB
}

var (
	storeUnknown        = prometheus.NewDesc("pq_store_unknown_total", "Commits whose result did not come back.", nil, nil)
	storeRefusedWatches = prometheus.NewDesc("pq_store_refused_watches_total", "Watches that ended at once because there were too many.", nil, nil)
	storeWatches        = prometheus.NewDesc("pq_store_watches", "Watches now pending.", nil, nil)
)

func (m fdbMetrics) Describe(descs chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, descs) }

func (m fdbMetrics) Collect(metrics chan<- prometheus.Metric) {
	n := m.db.Metrics()
	Counters(metrics, map[*prometheus.Desc]uint64{
		storeCommits: n.Commits, storeConflicts: n.Conflicts, storeUnknown: n.Unknown, storeRefusedWatches: n.RefusedWatches,
	})
	metrics <- prometheus.MustNewConstMetric(storeWatches, prometheus.GaugeValue, float64(n.Watches))
}
