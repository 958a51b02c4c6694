package local

import (
	"errors"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// reserve gives a new file its size, and room on the disk for all of it. The error of a file system that cannot do so is
// errors.ErrUnsupported.
func reserve(f vfs.File, size int64) error {
	if f.Fd() == vfs.InvalidFd {
		return errors.ErrUnsupported
	}
	for {
		if err := syscall.Fallocate(int(f.Fd()), 0, 0, size); err != syscall.EINTR {
			return err
		}
	}
}
