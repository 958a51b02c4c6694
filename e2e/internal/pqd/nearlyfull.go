package pqd

import (
	"fmt"
	"syscall"
	"testing"
)

// NearlyFull is a PQ_MIN_FREE with which the disk of a directory is nearly full: two thirds of it are free, so that
// there is more than the reserve.
func NearlyFull(t testing.TB, dir string) string {
	t.Helper()
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(int64(disk.Bavail) * int64(disk.Bsize) / 2 * 3)
}
