package local

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/logs"
)

// idleMarkDelay is the time from the last commit to the idle mark.
const idleMarkDelay = time.Second

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
	disk       *logs.Disk
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
	if err := m.store.LogData(m.disk.Synced().Append(nil), pebble.Sync); err != nil {
		return fmt.Errorf("writing to the store failed: %w", err)
	}
	return nil
}

// note writes down how far log and manifest are synced. A store without the note works as well, but does not notice
// that the end of its log is lost.
func (m *syncMarks) note() {
	if m.off {
		return
	}
	if err := m.disk.WriteNote(); err != nil {
		m.background.warn("noting how far the log is synced failed", "err", err)
	}
}
