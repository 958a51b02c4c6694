package main

import (
	"fmt"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
)

// diskRoom is the room on the disk of a directory: what pqd may still write, and all.
func diskRoom(dir string) (free, size int64, err error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return 0, 0, err
	}
	return int64(disk.Bavail) * int64(disk.Bsize), int64(disk.Blocks) * int64(disk.Bsize), nil
}

// minFree is how much of a disk stays free of new items: what is left is for settlements,
// which make room, and for the files that the store writes anew meanwhile.
type minFree struct {
	bytes int64
	set   bool
}

// Unless minFree is set, it is a twentieth of the disk within these bounds. What the store
// has in memory and writes to tables at once, 128 MiB at most, fits into the lower one. Of
// a small disk it is no more than a quarter.
const (
	leastMinFree = 256 << 20
	mostMinFree  = 1 << 30
)

func (m *minFree) Decode(value string) error {
	n, err := parseBytes(value)
	*m = minFree{bytes: n, set: true}
	return err
}

// of is how much of a disk of this size stays free.
func (m minFree) of(size int64) int64 {
	if m.set {
		return m.bytes
	}
	return min(mostMinFree, max(size/20, min(leastMinFree, size/4)))
}

// check says why a disk should take no new items, or nil.
func (m minFree) check(dir string) func() error {
	return func() error {
		free, size, err := diskRoom(dir)
		if err != nil || free >= m.of(size) {
			return nil // a disk that is gone is for /readyz
		}
		return tooLittle(free, m.of(size))
	}
}

func tooLittle(free, least int64) error {
	return fmt.Errorf("%d MiB are free on the disk of the store, and %d MiB are to stay free (PQ_MIN_FREE)", max(free, 0)>>20, least>>20)
}

// diskMetrics are the numbers of the disk that the store, or this pqd's copy, is on.
type diskMetrics struct {
	dir string
}

var (
	diskFree = prometheus.NewDesc("pq_store_disk_free_bytes", "Bytes that pqd may still write on the disk of the store.", nil, nil)
	diskSize = prometheus.NewDesc("pq_store_disk_size_bytes", "Bytes of the disk of the store.", nil, nil)
)

func (m diskMetrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- diskFree
	descs <- diskSize
}

func (m diskMetrics) Collect(metrics chan<- prometheus.Metric) {
	free, size, err := diskRoom(m.dir)
	if err != nil {
		return // it is gone, which /readyz reports
	}
	metrics <- prometheus.MustNewConstMetric(diskFree, prometheus.GaugeValue, float64(free))
	metrics <- prometheus.MustNewConstMetric(diskSize, prometheus.GaugeValue, float64(size))
}
