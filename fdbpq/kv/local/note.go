package local

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/durable"
)

// A note is a small file beside a replica, which is replaced as a whole. It is not a part
// of the replica: a checkpoint does not have it, and adopting one keeps it.

// WriteNote replaces the note of the replica in dir. When it returns nil, the note is on the
// disk.
func WriteNote(dir, suffix string, content []byte, opts Options) error {
	disk := opts.FS
	if disk == nil {
		disk = vfs.Default
	}
	return durable.Replace(disk, dir+suffix, content)
}

// ReadNote returns the note of the replica in dir, nil if there is none.
func ReadNote(dir, suffix string, opts Options) ([]byte, error) {
	disk := opts.FS
	if disk == nil {
		disk = vfs.Default
	}
	return durable.Read(disk, dir+suffix)
}
