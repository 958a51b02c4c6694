//go:build fdb

package fdbtest

import (
	"fmt"
	"syscall"
)

// leastRoom is what has to be free for a cluster: FoundationDB stops where less than 100 MB are free, and its files take some.
const leastRoom = 1 << 30

// checkRoom says that a disk has too little room for a cluster. Otherwise tests would wait for it without end.
func checkRoom(dir string) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("look at the room of %s: %w", dir, err)
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < leastRoom {
		return fmt.Errorf("%s has %d MB free: expected %d MB for a FoundationDB cluster; set TMPDIR to a folder with more", dir, free>>20, leastRoom>>20)
	}
	return nil
}
