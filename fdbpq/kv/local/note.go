package local

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/durable"
)

// A note is a small file beside a replica, which is replaced as a whole. It is not a part
// of the replica: a checkpoint does not have it, and adopting one keeps it. Its content is a JSON object. On the disk the
// object begins with the sum of the rest, so that a digit that has become another one is noticed. A program that knows no
// sums skips the field, and its own notes have none.

// errNoteDamaged is what a note is that differs from what was written.
var errNoteDamaged = errors.New("the note is damaged: its sum is another one")

const (
	sumBegins, sumEnds = `{"sum":"`, `",`
	sumSize            = len(sumBegins) + 8 + len(sumEnds)
)

// summed is a note as it is on the disk.
func summed(content []byte) []byte {
	return fmt.Appendf(nil, "%s%08x%s%s", sumBegins, crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)), sumEnds, content[1:])
}

// WriteNote replaces the note of the replica in dir. When it returns nil, the note is on the
// disk.
func WriteNote(dir, suffix string, content []byte, opts Options) error {
	if !bytes.HasPrefix(content, []byte(`{"`)) {
		return fmt.Errorf("the note %q: expected a JSON object with fields", content)
	}
	return durable.Replace(noteDisk(opts), dir+suffix, summed(content))
}

// ReadNote returns the note of the replica in dir, nil if there is none.
func ReadNote(dir, suffix string, opts Options) ([]byte, error) {
	found, err := durable.Read(noteDisk(opts), dir+suffix)
	if err != nil || !bytes.HasPrefix(found, []byte(sumBegins)) || len(found) < sumSize {
		return found, err
	}
	content := append([]byte("{"), found[sumSize:]...)
	if !bytes.Equal(summed(content), found) {
		return nil, errNoteDamaged
	}
	return content, nil
}

func noteDisk(opts Options) vfs.FS {
	if opts.FS == nil {
		return vfs.Default
	}
	return opts.FS
}
