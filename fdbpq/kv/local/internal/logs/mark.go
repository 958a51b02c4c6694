package logs

import (
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
)

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
