package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/durable"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/logs"
)

// Backup copies the store, while it is in use, into dir, which must not exist. The
// copy is a store like any other. It has every transaction that committed before
// the call, synced or not, and a prefix of the transactions that commit during it. dir exists
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
	unfinished := dir + durable.Partial
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

// restoring is the directory inside the store's where a restore puts the new files first. While it is there, the
// store is neither the old one nor the new one.
const restoring = "restoring"

// Copy copies a store that no process has open into a directory, which must not exist, and returns the number of
// bytes. A damaged store is copied with its damage.
func Copy(from, to string) (size int64, err error) {
	lock, err := lockDirectory(vfs.Default, from, slog.Default())
	if err != nil {
		return 0, openFailure(from, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := os.Stat(to); err == nil {
		return 0, fmt.Errorf("kv/local: copy to %s: %w", to, fs.ErrExist)
	}
	if size, err = copyStore(from, to+durable.Partial); err == nil {
		err = os.Rename(to+durable.Partial, to)
	}
	if err == nil {
		err = durable.SyncDirectory(vfs.Default, filepath.Dir(to))
	}
	if err != nil {
		return 0, fmt.Errorf("kv/local: copy to %s: %w", to, errors.Join(err, os.RemoveAll(to+durable.Partial)))
	}
	return size, nil
}

// Restore puts a copy of a store, such as a backup, in the place of the store in dir, which no process may have
// open. The old files go to a directory in dir, whose path Restore returns; "": there were none. Directories in dir
// stay, and so does dir itself, which may be a link or the root of a disk. A restore that was interrupted can be
// begun again and then ends; until then the store does not open.
func Restore(from, dir string) (replaced string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("kv/local: restore of %s: %w", from, err)
		}
	}()
	if found, err := filepath.Glob(filepath.Join(from, logs.MarkerPrefix+"manifest.*")); err != nil || len(found) == 0 {
		return "", errors.Join(fmt.Errorf("%s: expected the directory of a store, or of a backup", from), err)
	}
	for _, locked := range []string{dir, from} {
		lock, err := lockDirectory(vfs.Default, locked, slog.Default())
		if err != nil {
			return "", openFailure(locked, err)
		}
		defer lock.Close()
	}
	place := filepath.Join(dir, restoring)
	if err := os.RemoveAll(place); err != nil {
		return "", err
	}
	if _, err := copyStore(from, place); err != nil {
		return "", err
	}
	replaced = filepath.Join(dir, "replaced-"+time.Now().UTC().Format("20060102T150405.000000000"))
	if err := os.Mkdir(replaced, 0o700); err != nil {
		return "", err
	}
	moved, err := moveFiles(dir, replaced)
	if err != nil {
		return "", err
	}
	if moved == 0 {
		if err := os.Remove(replaced); err != nil {
			return "", err
		}
		replaced = ""
	}
	if _, err := moveFiles(place, dir); err != nil {
		return "", err
	}
	return replaced, errors.Join(os.Remove(place), durable.SyncDirectory(vfs.Default, dir), ownAs(dir, replaced))
}

// storeFiles are the names of the files in a store's directory, without the spare file.
func storeFiles(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type().IsRegular() && e.Name() != SpareName {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// copyStore copies the files of a store to a directory, which it makes. The files get the owner of the directory
// above, because another user than pqd's may restore.
func copyStore(from, to string) (size int64, err error) {
	names, err := storeFiles(from)
	if err == nil {
		err = os.Mkdir(to, 0o700)
	}
	for _, name := range names {
		if err != nil {
			break
		}
		var n int64
		n, err = copyFile(filepath.Join(from, name), filepath.Join(to, name))
		size += n
	}
	if err != nil {
		return 0, err
	}
	return size, errors.Join(durable.SyncDirectory(vfs.Default, to), ownAs(filepath.Dir(to), to))
}

func copyFile(from, to string) (size int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	if size, err = io.Copy(out, in); err == nil {
		err = out.Sync()
	}
	return size, errors.Join(err, out.Close())
}

// moveFiles moves the files of a store to another directory, and returns how many there were.
func moveFiles(from, to string) (n int, err error) {
	names, err := storeFiles(from)
	for _, name := range names {
		if err == nil {
			err = os.Rename(filepath.Join(from, name), filepath.Join(to, name))
		}
	}
	if err == nil {
		err = errors.Join(durable.SyncDirectory(vfs.Default, from), durable.SyncDirectory(vfs.Default, to))
	}
	return len(names), err
}

// ownAs gives a directory and its files the owner of another directory, if this user may do that.
func ownAs(like, dir string) error {
	info, err := os.Stat(like)
	if err != nil || dir == "" || os.Geteuid() != 0 {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	names, err := storeFiles(dir)
	for _, name := range append(names, "") {
		err = errors.Join(err, os.Chown(filepath.Join(dir, name), int(owner.Uid), int(owner.Gid)))
	}
	return err
}
