package logs

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/durable"
)

// If the end of a log is lost, its sync marks are lost with it: a log that was cut short looks like a log that was
// never longer. So a file beside the logs has the newest mark too. It is written at the end and, while the store is
// in use, every second. Its two slots are written in turn, each in a sector of its own: a write that is cut off
// leaves the other slot.

// NoteName is the name of that file.
const NoteName = "SYNCED"

const (
	noteSlot = 512
	noteHead = 4 + 8 // checksum, number of the write
)

// note is the file with the newest sync mark. The first write opens it.
type note struct {
	mu     sync.Mutex
	file   vfs.File
	number uint64 // of the last write
}

func (n *note) write(disk vfs.FS, dir string, m Mark) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file == nil {
		f, err := disk.OpenReadWrite(disk.PathJoin(dir, NoteName), vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		if err := durable.SyncDirectory(disk, dir); err != nil {
			return errors.Join(err, f.Close())
		}
		n.file = f
	}
	n.number++
	slot := binary.LittleEndian.AppendUint64(make([]byte, 4, noteSlot), n.number)
	slot = m.Append(slot)[:noteSlot]
	binary.LittleEndian.PutUint32(slot, crc32.Checksum(slot[4:], castagnoli))
	if _, err := n.file.WriteAt(slot, int64(n.number%2)*noteSlot); err != nil {
		return err
	}
	return n.file.SyncData()
}

// read returns the mark that was written last; none is the zero value.
func (n *note) read(disk vfs.FS, dir string) (newest Mark, err error) {
	content, err := durable.Read(disk, disk.PathJoin(dir, NoteName))
	if err != nil {
		return Mark{}, err
	}
	for ; len(content) >= noteSlot; content = content[noteSlot:] {
		slot := content[:noteSlot]
		number := binary.LittleEndian.Uint64(slot[4:])
		m, ok := readMark(slot[noteHead:])
		if ok && number > n.number && binary.LittleEndian.Uint32(slot) == crc32.Checksum(slot[4:], castagnoli) {
			newest, n.number = m, number
		}
	}
	return newest, nil
}

// ReadNote returns the mark that was noted last; none is the zero value.
func ReadNote(disk vfs.FS, dir string) (Mark, error) { return new(note).read(disk, dir) }

func (n *note) close() error {
	if n.file == nil {
		return nil
	}
	return n.file.Close()
}
