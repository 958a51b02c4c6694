package local

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// partial is what the name of a backup ends in that is not whole yet.
const partial = ".partial"

// Backup copies the store into dir, which must not exist, while it is being
// used. The copy is a store like any other. It has everything that was committed
// before the call, synced or not, and of what commits meanwhile a part that has
// no gaps. When Backup returns without an error the copy is on the disk, and dir
// never has only a part of it.
//
// On the store's own file system most of the copy are links to the same files,
// which the store never changes, so it takes a moment and hardly any space at
// first.
func (db *DB) Backup(dir string) error {
	if !db.life.enter() {
		return kv.ErrClosed
	}
	defer db.life.leave()
	if broken := db.broken.Load(); broken != nil {
		return *broken
	}
	if err := db.backup(dir); err != nil {
		return fmt.Errorf("kv/local: backup: %w", err)
	}
	return nil
}

func (db *DB) backup(dir string) error {
	disk := db.opts.FS
	unfinished := dir + partial
	for _, name := range []string{dir, unfinished} {
		switch _, err := disk.Stat(name); {
		case err == nil:
			return fmt.Errorf("%s: %w", name, fs.ErrExist)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	if err := db.store.Checkpoint(unfinished, pebble.WithFlushedWAL()); err != nil {
		return err // it has cleaned up behind itself
	}
	err := disk.Rename(unfinished, dir)
	if err != nil {
		return errors.Join(err, disk.RemoveAll(unfinished))
	}
	parent, err := disk.OpenDir(disk.PathDir(dir))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}
