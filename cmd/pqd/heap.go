package main

import (
	"os"
	"runtime/debug"
)

const (
	// ballastMost is what a heap without a limit gets.
	ballastMost = 64 << 20

	// ballastLeast is the smallest one that makes a difference.
	ballastLeast = 32 << 20

	// ballastPart is the part of GOMEMLIMIT that it may be, as it counts there
	// as well.
	ballastPart = 8
)

// newBallast returns memory that is never touched, so it takes no memory of the
// machine. But Go counts it when it decides whether to collect garbage, which it
// does when the heap has doubled. Under load some 4 MB are in use: Go would collect
// 20 times a second, which is 2 to 3 % of all work and more with leases. With the
// ballast it collects once a second, and keeps up to 70 MB more of garbage.
func newBallast() []byte {
	size := min(ballastMost, debug.SetMemoryLimit(-1)/ballastPart)
	if os.Getenv("GOGC") != "" || size < ballastLeast {
		return nil
	}
	return make([]byte, size)
}
