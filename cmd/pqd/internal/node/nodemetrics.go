package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/store"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// nodeMetrics are the numbers of a store that several pqd keep together.
type nodeMetrics struct {
	db *cluster.DB
}

var (
	clusterActive    = prometheus.NewDesc("pq_cluster_active", "Whether this pqd serves the store: 1 or 0.", nil, nil)
	clusterStopped   = prometheus.NewDesc("pq_cluster_stopped", "Whether this pqd has stopped, because its copy and the log do not belong together: 1 or 0.", nil, nil)
	clusterEpoch     = prometheus.NewDesc("pq_cluster_epoch", "The epoch of the log; it grows with each takeover.", nil, nil)
	clusterEntry     = prometheus.NewDesc("pq_cluster_entry", "The last entry of the log in the copy of this pqd.", nil, nil)
	clusterLag       = prometheus.NewDesc("pq_cluster_lag_entries", "Entries of the log that the copy of this pqd lacks, as far as it knows.", nil, nil)
	clusterLogBytes  = prometheus.NewDesc("pq_cluster_log_bytes", "Bytes of the log.", nil, nil)
	clusterLogMost   = prometheus.NewDesc("pq_cluster_log_max_bytes", "Bytes that the log may have.", nil, nil)
	clusterAppends   = prometheus.NewDesc("pq_cluster_appends_total", "Entries that this pqd has written to the log.", nil, nil)
	clusterTakeovers = prometheus.NewDesc("pq_cluster_takeovers_total", "How often this pqd began to serve the store.", nil, nil)
)

func (n nodeMetrics) Describe(descs chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(n, descs)
}

func (n nodeMetrics) Collect(metrics chan<- prometheus.Metric) {
	s := n.db.Status()
	for desc, value := range map[*prometheus.Desc]uint64{
		clusterActive: count(s.Role == cluster.Active), clusterStopped: count(s.Role == cluster.Stopped),
		clusterEpoch: s.Epoch, clusterEntry: s.Entry, clusterLag: s.Lag(s.Entry),
		clusterLogBytes: s.Log.Bytes, clusterLogMost: s.Log.MaxBytes,
	} {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value))
	}
	metrics <- store.DamagedFiles(len(n.db.Damage()))
	metrics <- store.SpareFile(n.db.Spare())
	store.Counters(metrics, map[*prometheus.Desc]uint64{clusterAppends: s.Appends, clusterTakeovers: s.Takeovers})
}

func count(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}
