package time

import "sync/atomic"

// Moved is how far the wall clock of Now is from the machine's, in nanoseconds. No monotonic clock moves.
var Moved atomic.Int64

func moved(sec int64, nsec int32) (int64, int32) {
	by := Moved.Load()
	sec, nsec = sec+by/1e9, nsec+int32(by%1e9)
	switch {
	case nsec < 0:
		return sec - 1, nsec + 1e9
	case nsec >= 1e9:
		return sec + 1, nsec - 1e9
	}
	return sec, nsec
}
