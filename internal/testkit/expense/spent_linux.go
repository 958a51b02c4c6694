package expense

import (
	"time"

	"golang.org/x/sys/unix"
)

// spent is the processor time of the program so far.
func spent() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
