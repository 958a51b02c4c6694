package patience

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock is the time since some moment. It is not time.Now, which stands still, or jumps, in a test with a clock of
// its own.
func clock() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
