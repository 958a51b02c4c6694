package local

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// If the end of a log is lost, its sync marks are lost with it: a log that was cut short looks like a log that was
// never longer. So a file beside the logs has the newest mark too. It is written at the end and, while the store is
// in use, every second. Its two slots are written in turn, each in a sector of its own: a write that is cut off
// leaves the other slot.
const (
	syncNoteName = "SYNCED"
	noteSlot     = 512
	noteHead     = 4 + 8 // checksum, number of the write
)

// syncNote is the file with the newest sync mark. The first write opens it.
type syncNote struct {
	mu     sync.Mutex
	file   vfs.File
	number uint64 // of the last write
}

func (n *syncNote) write(disk vfs.FS, dir string, m syncMark) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file == nil {
		f, err := disk.OpenReadWrite(disk.PathJoin(dir, syncNoteName), vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		if err := syncDirectory(disk, dir); err != nil {
			return errors.Join(err, f.Close())
		}
		n.file = f
	}
	n.number++
	slot := binary.LittleEndian.AppendUint64(make([]byte, 4, noteSlot), n.number)
	slot = m.append(slot)[:noteSlot]
	binary.LittleEndian.PutUint32(slot, crc32.Checksum(slot[4:], castagnoli))
	if _, err := n.file.WriteAt(slot, int64(n.number%2)*noteSlot); err != nil {
		return err
	}
	return n.file.SyncData()
}

// read returns the mark that was written last; none is the zero value.
func (n *syncNote) read(disk vfs.FS, dir string) (newest syncMark, err error) {
	content, err := readWhole(disk, disk.PathJoin(dir, syncNoteName))
	if err != nil {
		return syncMark{}, err
	}
	for ; len(content) >= noteSlot; content = content[noteSlot:] {
		slot := content[:noteSlot]
		number := binary.LittleEndian.Uint64(slot[4:])
		m, ok := readSyncMark(slot[noteHead:])
		if ok && number > n.number && binary.LittleEndian.Uint32(slot) == crc32.Checksum(slot[4:], castagnoli) {
			newest, n.number = m, number
		}
	}
	return newest, nil
}

func (n *syncNote) close() error {
	if n.file == nil {
		return nil
	}
	return n.file.Close()
}

// note writes down how far log and manifest are synced. A store without the note works as well, but does not notice
// that the end of its log is lost.
func (m *syncMarks) note() {
	if m.off {
		return
	}
	if err := m.disk.note.write(m.disk.FS, m.disk.dir, m.disk.syncMark()); err != nil {
		m.background.warn("noting how far the log is synced failed", "err", err)
	}
}

// addNote records in the check how far, by the note, each log was synced.
func (s *logCheck) addNote(m syncMark) {
	s.synced[m.log] = max(s.synced[m.log], int64(m.logSynced))
	s.manifests[m.manifest] = max(s.manifests[m.manifest], int64(m.manifestSynced))
}

// anyFrom reports whether a log with this number, or a newer one, is there.
func (s *logCheck) anyFrom(number uint64) bool {
	for there := range s.logs {
		if there >= number {
			return true
		}
	}
	return false
}
