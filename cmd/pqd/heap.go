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

// newBallast returns memory that nobody touches, so the machine need not have
// it. But it counts when Go decides whether to look for garbage, which it does
// when the heap has doubled. Under load some 4 MB are in use: Go would go through
// them 20 times a second, which is 2 to 3 % of all work and more with leases, and
// now does once. For that, up to 70 MB more of garbage lie about.
func newBallast() []byte {
	size := min(ballastMost, debug.SetMemoryLimit(-1)/ballastPart)
	if os.Getenv("GOGC") != "" || size < ballastLeast {
		return nil
	}
	return make([]byte, size)
}
