package logs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// file is a log.
type file struct {
	syncedFile
	size   int64 // of the file, with zeros and remains of an old log
	lazy   bool  // sync only when it is closed
	closed func()
	failed func(error) // called before an error is returned
}

// logAhead is the number of zeros that are added to a log at a time. A larger number makes the next sync slower, a
// smaller one makes such syncs more frequent.
const logAhead = 256 << 10

var zeros [logAhead]byte

// Write implements io.Writer. It adds zeros behind the written bytes; it succeeds
// when there is no space for the zeros.
func (f *file) Write(p []byte) (int, error) {
	if f.lazy {
		clearSyncedOffsets(p)
	}
	n, err := f.syncedFile.Write(p)
	end := f.end.Load()
	if err != nil || end <= f.size {
		return n, f.report("writing", err)
	}
	f.size = end + logAhead
	if _, err := f.WriteAt(zeros[:], end); err != nil {
		f.size = math.MaxInt64 // add none from now on
	}
	return n, nil
}

// Sync implements vfs.File.
func (f *file) Sync() error {
	if f.lazy {
		return nil
	}
	return f.report("syncing", f.syncedFile.Sync())
}

// SyncData implements vfs.File.
func (f *file) SyncData() error {
	if f.lazy {
		return nil
	}
	return f.report("syncing", f.syncedFile.SyncData())
}

// Close implements io.Closer.
func (f *file) Close() error {
	f.closed()
	var err error
	if f.lazy {
		err = f.File.SyncData()
	}
	return f.report("closing", errors.Join(err, f.File.Close()))
}

func (f *file) report(what string, err error) error {
	if err != nil {
		f.failed(fmt.Errorf("%s the store's log failed: %w", what, err))
	}
	return err
}

// reader reads a log up to where it was written when it was opened. Only Read works.
type reader struct {
	vfs.File
	limited io.LimitedReader
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) { return r.limited.Read(p) }

// Mark says how far log and manifest were synced. A log ends in zeros, in the
// remains of an older log, or after a power loss in any bytes. So Pebble takes the first
// unreadable byte of the newest log for its end, even when the log is damaged in the
// middle. Therefore each commit writes a mark into the log: unreadable bytes before the
// last mark's offset are damage, since they had been synced. A mark does not cover its
// own commit, so an idle mark follows the last commit of a series.
type Mark struct {
	Log, LogSynced           uint64 // number of the newest log, bytes of it
	Manifest, ManifestSynced uint64
}

// markTag tells sync marks from other data in a log.
const markTag = "pq\x00\x01"

// MaxMark is the most bytes that a mark takes.
const MaxMark = len(markTag) + 4*binary.MaxVarintLen64

// Append appends the mark to b, as the data of a log's record.
func (m Mark) Append(b []byte) []byte {
	b = append(b, markTag...)
	for _, n := range []uint64{m.Log, m.LogSynced, m.Manifest, m.ManifestSynced} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// ParseMark parses the mark at the beginning of a log's record. The record is a
// batch, in which the mark follows a header of 12 bytes.
func ParseMark(record []byte) (m Mark, ok bool) {
	const header = 12
	if len(record) < header+2 || record[header] != byte(pebble.InternalKeyKindLogData) {
		return Mark{}, false
	}
	rest := record[header+1:]
	size, n := binary.Uvarint(rest)
	if n <= 0 || uint64(len(rest)-n) < size {
		return Mark{}, false
	}
	rest = rest[n : n+int(size)]
	return readMark(rest)
}

// readMark reads a mark as append writes it.
func readMark(rest []byte) (m Mark, ok bool) {
	if len(rest) < len(markTag) || string(rest[:len(markTag)]) != markTag {
		return Mark{}, false
	}
	rest = rest[len(markTag):]
	for _, field := range []*uint64{&m.Log, &m.LogSynced, &m.Manifest, &m.ManifestSynced} {
		value, n := binary.Uvarint(rest)
		if n <= 0 {
			return Mark{}, false
		}
		*field, rest = value, rest[n:]
	}
	return m, true
}

// The names of files of a store: a number follows the prefix, or stands before the suffix.
const (
	logSuffix      = ".log"
	ManifestPrefix = "MANIFEST-"
	MarkerPrefix   = "marker." // of the files that say which manifest counts
)

// parseName reports whether a file is a log or a manifest of the store in dir, and its number. A copy
// of a log is neither.
func parseName(disk vfs.FS, dir, name string) (number uint64, isLog, isManifest bool) {
	if disk.PathDir(name) != dir {
		return 0, false, false
	}
	base := disk.PathBase(name)
	numeral, isLog := strings.CutSuffix(base, logSuffix)
	if !isLog {
		numeral, isManifest = strings.CutPrefix(base, ManifestPrefix)
	}
	number, err := strconv.ParseUint(numeral, 10, 64)
	return number, isLog && err == nil, isManifest && err == nil
}
