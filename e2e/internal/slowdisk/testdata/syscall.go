package syscall

import "sync/atomic"

// SlowLeast and SlowMost are how long each sync takes besides, in nanoseconds: any time in between.
var SlowLeast, SlowMost, SlowSyncs atomic.Int64

// slow makes a call take longer that has synced: a sync, or a write to a file for which each write is one.
func slow(trap, fd uintptr) {
	most := SlowMost.Load()
	if most == 0 {
		return
	}
	switch trap {
	case SYS_FSYNC, SYS_FDATASYNC, SYS_SYNC_FILE_RANGE:
	case SYS_WRITE, SYS_PWRITE64:
		if flags, _, err := RawSyscall(SYS_FCNTL, fd, F_GETFL, 0); err != 0 || flags&O_DSYNC == 0 {
			return
		}
	default:
		return
	}
	// Successive numbers are mixed, so that the times look random.
	x := uint64(SlowSyncs.Add(1)) * 0x9E3779B97F4A7C15
	x ^= x >> 29
	least := SlowLeast.Load()
	rest := NsecToTimespec(least + int64(x%uint64(most-least+1)))
	for Nanosleep(&rest, &rest) == EINTR { // a signal of Go's scheduler
	}
}
