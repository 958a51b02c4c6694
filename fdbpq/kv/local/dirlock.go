package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/durable"
)

// lockDirectory locks dir itself, and makes it if there is none. Pebble locks only a
// file in it: if that file is deleted, a second process can create and lock another
// one. A directory cannot be deleted while it has files.
func lockDirectory(disk vfs.FS, dir string, log *slog.Logger) (io.Closer, error) {
	if vfs.Root(disk) != vfs.Default {
		return io.NopCloser(nil), nil // no other process can access it
	}
	if err := makeDirectory(disk, dir); err != nil {
		return nil, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		return directoryLock{f}, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(err, f.Close())
	}
	// Some network file systems cannot lock directories.
	log.Warn("kv/local: the directory of the store cannot be locked, only a file in it: do not delete LOCK", "directory", dir, "err", err)
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("closing %s: %w", dir, err)
	}
	return io.NopCloser(nil), nil
}

// directoryLock is a directory that this process has locked.
type directoryLock struct{ *os.File }

// Close ends the lock, also for a program that this process is just starting: until it runs, it has the open directory, too.
func (l directoryLock) Close() error {
	return errors.Join(syscall.Flock(int(l.Fd()), syscall.LOCK_UN), l.File.Close())
}

// unlocked is the file system of a store that is opened read-only. The directory is locked, and the file LOCK
// would be another user's, or could not be made at all.
type unlocked struct{ vfs.FS }

// Unwrap implements vfs.FS.
func (u unlocked) Unwrap() vfs.FS { return u.FS }

// Lock implements vfs.FS.
func (u unlocked) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// holder is the process that has locked the directory or the file in it; 0 if the system does not say. Linux lists
// locks with its own numbers of disks, which differ from the numbers of some file systems.
func holder(dir string) (pid int) {
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	for _, locked := range []string{dir, filepath.Join(dir, "LOCK")} {
		var stat syscall.Stat_t
		if syscall.Stat(locked, &stat) != nil {
			continue
		}
		dev := uint64(stat.Dev)
		major, minor := dev>>8&0xfff|dev>>32&^0xfff, dev&0xff|dev>>12&^0xff
		where := fmt.Sprintf("%02x:%02x:%d", major, minor, stat.Ino)
		for line := range strings.Lines(string(locks)) {
			// 1: FLOCK  ADVISORY  WRITE 4711 fe:01:131 0 EOF
			if fields := strings.Fields(line); len(fields) > 5 && fields[5] == where {
				pid, _ = strconv.Atoi(fields[4]) // -1 beyond this container
				return max(pid, 0)
			}
		}
	}
	return 0
}

// unit names the systemd unit of a process, behind a comma; "" if it has none, or the system does not say.
func unit(pid int) string {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if name := unitOf(string(groups)); err == nil && name != "" {
		return ", unit " + name
	}
	return ""
}

// unitOf is the service to which these control groups belong, "" for none. A line is 0::/system.slice/pqd.service.
func unitOf(groups string) string {
	for line := range strings.Lines(groups) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			if strings.HasSuffix(part, ".service") && !strings.HasPrefix(part, "user@") {
				return part
			}
		}
	}
	return ""
}

// makeDirectory makes dir and missing directories above it, durably: a name is on the
// disk once the directory that has it is synced.
func makeDirectory(disk vfs.FS, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	var parents []string
	for at := dir; ; at = disk.PathDir(at) {
		if _, err := disk.Stat(at); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		parents = append(parents, disk.PathDir(at))
	}
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, parent := range parents {
		if err := durable.SyncDirectory(disk, parent); err != nil {
			return err
		}
	}
	return nil
}
