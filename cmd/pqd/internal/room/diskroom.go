package room

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/protocol"
)

// Free returns how many bytes pqd may still write to the disk of a directory, and the size of the disk.
func Free(dir string) (free, size int64, err error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return 0, 0, err
	}
	return int64(disk.Bavail) * int64(disk.Bsize), int64(disk.Blocks) * int64(disk.Bsize), nil
}

// Spare is the size of the spare file of a store in a directory, which need not be there yet. 0: there is none.
func Spare(m settings.MinFree, dir string) int64 {
	for {
		_, size, err := Free(dir)
		if err == nil {
			return m.Spare(size)
		}
		above := filepath.Dir(dir)
		if !errors.Is(err, fs.ErrNotExist) || above == dir {
			return 0 // opening the store says what is wrong
		}
		dir = above
	}
}

// Disk describes the disk of the store, or of this pqd's copy. nil: neither is on a disk of this machine.
func Disk(s settings.Settings) func() *protocol.Disk {
	dir := s.Store.Place
	switch {
	case s.Shared():
		dir = string(s.Data)
	case !s.Store.Embedded():
		return nil
	}
	return func() *protocol.Disk {
		free, size, err := Free(dir)
		if err != nil {
			return nil // it is gone, which /readyz reports
		}
		return &protocol.Disk{Free: free, Size: size, MinFree: s.MinFree.Of(size)}
	}
}

// DiskWith describes a disk as another function does, and says when only requests that end items are served.
func DiskWith(disk func() *protocol.Disk, last func() error) func() *protocol.Disk {
	if disk == nil {
		return nil
	}
	return func() *protocol.Disk {
		d := disk()
		if d != nil {
			d.EndsOnly = last() != nil
		}
		return d
	}
}

// tooLittle says how much is free; less names the part that df counts as free.
func tooLittle(free, least int64, less string) error {
	return fmt.Errorf("%d MiB are free on the disk of the store%s, and %d MiB are to stay free (PQ_MIN_FREE)", max(free, 0)>>20, less, (least+1<<19)>>20)
}

const (
	// reservePart is the part of PQ_MIN_FREE that is the reserve.
	reservePart = 2

	// moreRoom is the part of PQ_MIN_FREE that has to be free beyond it before the store takes new items again.
	// Otherwise it would change its mind with each file that comes and goes.
	moreRoom = 16
)

// onlyReserve says the same of a disk of which the reserve alone is left.
func onlyReserve(free, least int64, less string) error {
	return fmt.Errorf("%w: below half of that only pops for good, acknowledgements, -NAK, +BACK, +TERM, remove, purge and delete are served", tooLittle(free, least, less))
}

// lowPart is the part of PQ_MIN_FREE below which no item is written again.
const lowPart = 4

// halfReserve says the same of a disk of which half of the reserve is left.
func halfReserve(free, least int64, less string) error {
	return fmt.Errorf("%w: below a quarter of that no item returns to its queue, and -NAK, +BACK, +TERM and +WPI are refused", tooLittle(free, least, less))
}

// lastRoom says the same of a disk on which hardly the room of the spare file is left.
func lastRoom(free, least int64, less string) error {
	return fmt.Errorf("%w: so near to a full disk only remove, purge and delete are served", tooLittle(free, least, less))
}

// level is something that is refused while less than a bound is free, and until some more is.
type level struct {
	now          atomic.Pointer[error]
	severity     slog.Level
	begins, ends string // in the log
}

// why says why there is too little room, or nil.
func (l *level) why() error {
	if why := l.now.Load(); why != nil {
		return *why
	}
	return nil
}

// bound is how much has to be free, which is more while there was too little.
func (l *level) bound(bytes int64) int64 {
	if l.why() != nil {
		bytes += bytes / moreRoom
	}
	return bytes
}

// note notes whether there is too little room, and logs a change.
func (l *level) note(log *slog.Logger, below bool, says func() error) {
	was := l.why()
	switch {
	case below:
		why := says()
		l.now.Store(&why)
		if was == nil {
			log.Log(context.Background(), l.severity, l.begins, "why", why)
		}
	case was != nil:
		l.now.Store(nil)
		log.Info(l.ends)
	}
}

// diskMetrics are the numbers of the disk of the store, or of this pqd's copy.
type diskMetrics struct {
	dir string
}

var (
	diskFree = prometheus.NewDesc("pq_store_disk_free_bytes", "Bytes that pqd may still write on the disk of the store.", nil, nil)
	diskSize = prometheus.NewDesc("pq_store_disk_size_bytes", "Bytes of the disk of the store.", nil, nil)
)

// Metrics returns the numbers of the disk of a directory.
func Metrics(dir string) prometheus.Collector { return diskMetrics{dir} }

func (m diskMetrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- diskFree
	descs <- diskSize
}

func (m diskMetrics) Collect(metrics chan<- prometheus.Metric) {
	free, size, err := Free(m.dir)
	if err != nil {
		return // it is gone, which /readyz reports
	}
	metrics <- prometheus.MustNewConstMetric(diskFree, prometheus.GaugeValue, float64(free))
	metrics <- prometheus.MustNewConstMetric(diskSize, prometheus.GaugeValue, float64(size))
}
