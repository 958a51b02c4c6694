package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/room"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// Open opens the engine of PQ_STORE. The collector has the engine's metrics, and may
// be nil.
func Open(ctx context.Context, s settings.Settings, log *slog.Logger) (kv.DB, prometheus.Collector, error) {
	switch s.Store.Engine {
	case "fdb":
		if !s.Sync {
			return nil, nil, settings.Usagef("PQ_SYNC=false is for the embedded store, found PQ_STORE=%s: FoundationDB always syncs", s.Store)
		}
		return openFDB(ctx, s.Store, log)
	case "local":
		db, err := openEmbedded(s.Store.Place, s, log)
		if err != nil {
			return nil, nil, err
		}
		process.KeepPrivate(s.Store.Place, log)
		return db, localMetrics{db}, nil
	}
	panic("unreachable: storeName knows the engines") // Decode lets nothing else through
}

// openEmbedded opens the store in a directory. It refuses a node's copy: rows written there would be missing in the
// log, which the other nodes follow.
func openEmbedded(dir string, s settings.Settings, log *slog.Logger) (*local.DB, error) {
	db, err := openDir(dir, s, log)
	if err != nil {
		return nil, UnlessMade(dir, err)
	}
	position, err := db.Position()
	if err == nil && position != nil {
		err = errors.New("this is a node's copy of a store that several pqd keep. What pqd wrote here alone would be missing on the other nodes: expected PQ_CLUSTER or PQ_STORE=jetstream:<name>. " +
			"To move its items to another store, run pqd salvage <directory> and pq import")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("PQ_STORE=%s: %w", s.Store, err), db.Close())
	}
	return db, nil
}

// UnlessMade turns an error into one of the settings if the directory that they name cannot be made, or not be
// used. A disk that is full or fails is no error of the settings.
func UnlessMade(dir string, err error) error {
	info, _ := os.Stat(dir)
	if info != nil && errors.Is(err, fs.ErrPermission) {
		return settings.Usagef("%w: expected a directory of pqd's user, whose id is %d", err, os.Getuid())
	}
	missing := (info == nil || !info.IsDir()) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EIO)
	if missing || errors.Is(err, fs.ErrPermission) {
		return settings.Usagef("%w: expected a directory, or a place where pqd may make it", err)
	}
	return err
}

// openDir opens the store in a directory, or a copy.
func openDir(dir string, s settings.Settings, log *slog.Logger) (*local.DB, error) {
	db, err := local.Open(dir, local.Options{NoSync: !s.Sync, Spare: room.Spare(s.MinFree, dir), Log: log, Fatal: func(err error) { GiveUp(log, err) }})
	if err != nil {
		return nil, fmt.Errorf("PQ_STORE=%s: %w", s.Store, AdviseDamage(err, s))
	}
	return db, nil
}

// Dir is the directory of the store that PQ_STORE names, or of this node's copy.
func Dir(s settings.Settings, instead string) (string, error) {
	if s.Shared() {
		return s.CopyDir(), nil
	}
	if !s.Store.Embedded() {
		return "", settings.Usagef("PQ_STORE=%s: expected an embedded store, local:<directory>, or a node's copy of a store that several pqd keep; %s", s.Store, instead)
	}
	return s.Store.Place, nil
}

// Options are the options of the queues in the store.
func Options(s settings.Settings) fdbpq.Options {
	return fdbpq.Options{RefuseUnknown: !s.AutoCreate, Exclusive: s.Store.Embedded(), Strict: s.Store.Embedded(), MaxQueueBytes: int64(s.QueueBytes)}
}

// localMetrics are the embedded store's numbers for Prometheus.
type localMetrics struct {
	db *local.DB
}

var (
	storeCommits   = prometheus.NewDesc("pq_store_commits_total", "Transactions that wrote something.", nil, nil)
	storeConflicts = prometheus.NewDesc("pq_store_conflicts_total", "Transactions run again because of another one's commit.", nil, nil)
	storeTooOld    = prometheus.NewDesc("pq_store_too_old_total", "Transactions run again because they took too long.", nil, nil)
	storeGaps      = prometheus.NewDesc("pq_store_known_gaps", "Ranges of keys remembered to be empty.", nil, nil)
	storeBytes     = prometheus.NewDesc("pq_store_disk_bytes", "Disk space that the store's files take.", nil, nil)
	storeSpare     = prometheus.NewDesc("pq_store_spare_bytes", "Bytes of the spare file of the store, or of this pqd's copy: 0 after it was given up.", nil, nil)
)

func (m localMetrics) Describe(descs chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, descs) }

func (m localMetrics) Collect(metrics chan<- prometheus.Metric) {
	n, err := m.db.Metrics()
	if err != nil {
		return // the store is closed: pqd stops
	}
	Counters(metrics, map[*prometheus.Desc]uint64{storeCommits: n.Commits, storeConflicts: n.Conflicts, storeTooOld: n.TooOld})
	metrics <- DamagedFiles(len(m.db.Damage()))
	metrics <- prometheus.MustNewConstMetric(storeGaps, prometheus.GaugeValue, float64(n.Gaps))
	metrics <- prometheus.MustNewConstMetric(storeBytes, prometheus.GaugeValue, float64(n.DiskBytes))
	metrics <- SpareFile(m.db.Spare())
}

// SpareFile is the metric of a spare file that has so many of the bytes that it is to have.
func SpareFile(has, _ int64) prometheus.Metric {
	return prometheus.MustNewConstMetric(storeSpare, prometheus.GaugeValue, float64(has))
}

// Counters sends counters to Prometheus.
func Counters(metrics chan<- prometheus.Metric, values map[*prometheus.Desc]uint64) {
	for desc, value := range values {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value))
	}
}

// GiveUp ends pqd at once after a failed write to the disk: the store's answers may be
// wrong from then on.
func GiveUp(log *slog.Logger, err error) {
	log.Error("the disk failed or is full: pqd ends at once and answers no more requests; acknowledged items are safe", "error", err)
	os.Exit(1)
}
