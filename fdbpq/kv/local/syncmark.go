package local

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// syncMark says how far log and manifest were synced. A log ends in zeros, in the
// remains of an older log, or after a power loss in any bytes. So Pebble takes the first
// unreadable byte of the newest log for its end, even when the log is damaged in the
// middle. Therefore each commit writes a mark into the log: unreadable bytes before the
// last mark's offset are damage, since they had been synced. A mark does not cover its
// own commit, so an idle mark follows the last commit of a series.
type syncMark struct {
	log, logSynced           uint64 // number of the newest log, bytes of it
	manifest, manifestSynced uint64
}

// syncMarkTag tells sync marks from other data in a log.
const syncMarkTag = "pq\x00\x01"

const maxSyncMark = len(syncMarkTag) + 4*binary.MaxVarintLen64

// idleMarkDelay is the time from the last commit to the idle mark.
const idleMarkDelay = time.Second

func (m syncMark) append(b []byte) []byte {
	b = append(b, syncMarkTag...)
	for _, n := range []uint64{m.log, m.logSynced, m.manifest, m.manifestSynced} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// parseSyncMark parses the mark at the beginning of a log's record. The record is a
// batch, in which the mark follows a header of 12 bytes.
func parseSyncMark(record []byte) (m syncMark, ok bool) {
	const header = 12
	if len(record) < header+2 || record[header] != byte(pebble.InternalKeyKindLogData) {
		return syncMark{}, false
	}
	rest := record[header+1:]
	size, n := binary.Uvarint(rest)
	if n <= 0 || uint64(len(rest)-n) < size {
		return syncMark{}, false
	}
	rest = rest[n : n+int(size)]
	return readSyncMark(rest)
}

// readSyncMark reads a mark as append writes it.
func readSyncMark(rest []byte) (m syncMark, ok bool) {
	if len(rest) < len(syncMarkTag) || string(rest[:len(syncMarkTag)]) != syncMarkTag {
		return syncMark{}, false
	}
	rest = rest[len(syncMarkTag):]
	for _, field := range []*uint64{&m.log, &m.logSynced, &m.manifest, &m.manifestSynced} {
		value, n := binary.Uvarint(rest)
		if n <= 0 {
			return syncMark{}, false
		}
		*field, rest = value, rest[n:]
	}
	return m, true
}

// syncMarks writes marks into the log and the note. It writes an idle mark when there was no
// commit for idleMarkDelay.
type syncMarks struct {
	off   bool // the store does not sync, or must not change
	delay time.Duration
	timer *time.Timer
	armed atomic.Bool   // the timer is set
	after atomic.Uint64 // the newest commit when it was set

	*history
	store      *pebble.DB
	disk       *logDisk
	life       *lifetime
	failure    *failure
	background *backgroundLog
}

func (m *syncMarks) start() {
	m.delay = idleMarkDelay
	m.timer = time.AfterFunc(idleMarkDelay, m.writeIdle)
	m.timer.Stop()
}

// manifestWritten sets the timer after the manifest was written.
func (m *syncMarks) manifestWritten() {
	if newest := m.applied.Load(); newest != nil {
		m.committed(newest.version)
	}
}

// committed sets the timer after a commit, unless it is set.
func (m *syncMarks) committed(version uint64) {
	if !m.off && !m.armed.Load() && m.armed.CompareAndSwap(false, true) {
		m.after.Store(version)
		m.timer.Reset(m.delay)
	}
}

func (m *syncMarks) writeIdle() {
	if !m.life.enter() {
		return
	}
	defer m.life.leave()
	m.armed.Store(false) // a commit from here on sets the timer again
	if newest := m.applied.Load().version; newest != m.after.Load() {
		m.committed(newest)
		m.note()
		return
	}
	if err := m.write(); err != nil {
		m.failure.set(err)
		return
	}
	m.note()
}

// write writes a mark into the log and syncs it.
func (m *syncMarks) write() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("writing to the store failed: %v", p)
		}
	}()
	if err := m.store.LogData(m.disk.syncMark().append(nil), pebble.Sync); err != nil {
		return fmt.Errorf("writing to the store failed: %w", err)
	}
	return nil
}
