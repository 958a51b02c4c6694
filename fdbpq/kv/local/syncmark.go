package local

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// A log ends somewhere in zeros, or in the remains of an older log, and after a
// power loss in anything. So Pebble takes what it cannot read for the end of the
// newest log, damage in its middle included, unless it happens to know better.
// Marks are what this engine knows it by: each commit writes into the log how far
// log and manifest were synced before it. What cannot be read and lies before
// that was acknowledged once. A commit's own mark does not cover the commit, so
// the last one of a series is followed by a mark alone.
type syncMark struct {
	log, logSynced           uint64 // number of the newest log, bytes of it
	manifest, manifestSynced uint64
}

// markTag tells marks from other data that a log might hold.
const syncMarkTag = "pq\x00\x01"

const maxSyncMark = len(syncMarkTag) + 4*binary.MaxVarintLen64

// markDelay is how long after the last commit a mark is written alone.
const idleMarkDelay = time.Second

func (m syncMark) append(b []byte) []byte {
	b = append(b, syncMarkTag...)
	for _, n := range []uint64{m.log, m.logSynced, m.manifest, m.manifestSynced} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// parseMark finds the mark in the beginning of a log's record. The record is a
// batch: 12 bytes of header, and the mark is the first thing in it.
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

// marks writes a mark alone when nobody has committed for a while.
type idleMarks struct {
	delay time.Duration
	timer *time.Timer
	armed atomic.Bool   // the timer is set
	after atomic.Uint64 // the newest commit when it was set
}

func (db *DB) startIdleMarks() {
	db.idleMarks.delay = idleMarkDelay
	db.idleMarks.timer = time.AfterFunc(idleMarkDelay, db.writeIdleMark)
	db.idleMarks.timer.Stop()
}

// manifestWritten sets the timer after the manifest was written.
func (db *DB) manifestWritten() {
	if newest := db.applied.Load(); newest != nil && !db.opts.NoSync {
		db.idleMarks.committed(newest.version)
	}
}

// committed sets the timer behind a commit, unless it is set.
func (m *idleMarks) committed(version uint64) {
	if !m.armed.Load() && m.armed.CompareAndSwap(false, true) {
		m.after.Store(version)
		m.timer.Reset(m.delay)
	}
}

func (db *DB) writeIdleMark() {
	if !db.life.enter() {
		return
	}
	defer db.life.leave()
	m := &db.idleMarks
	m.armed.Store(false) // a commit from here on sets the timer again
	if newest := db.applied.Load().version; newest != m.after.Load() {
		m.committed(newest)
		return
	}
	if err := db.writeSyncMark(); err != nil {
		db.fail(err)
	}
}

// writeMark writes a mark into the log and syncs it.
func (db *DB) writeSyncMark() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("writing to the store failed: %v", p)
		}
	}()
	if err := db.store.LogData(db.disk.syncMark().append(nil), pebble.Sync); err != nil {
		return fmt.Errorf("writing to the store failed: %w", err)
	}
	return nil
}
