package local

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// partial ends the name of an incomplete backup.
const partial = ".partial"

// Backup copies the store, while it is in use, into dir, which must not exist. The
// copy is a store like any other. It has every transaction that committed before
// the call, synced or not, and a prefix of those that commit during it. dir exists
// only once the copy is complete, and when Backup returns without an error, the copy
// is on the disk.
//
// On the store's own file system most files of the copy are hard links to files that
// the store never changes, so at first a backup takes little time and space.
func (db *DB) Backup(dir string) error {
	if !db.life.enter() {
		return kv.ErrClosed
	}
	defer db.life.leave()
	if err := db.failure.err(); err != nil {
		return err
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
		return err // Checkpoint removes what it has made
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
