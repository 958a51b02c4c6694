package main

import (
	"os"
	"runtime/debug"
)

const (
	ballastSize = 64 << 20

	// ballastLimit is the least GOMEMLIMIT that has room for the ballast, which
	// counts there as well.
	ballastLimit = 8 * ballastSize
)

// newBallast returns memory that nobody touches, so the machine need not have
// it. But it counts when Go decides whether to look for garbage, which it does
// when the heap has doubled. Under load some 4 MB are in use: Go would go through
// them 20 times a second, which is 2 to 3 % of all work and more with leases, and
// now does once. For that, up to 70 MB more of garbage lie about.
func newBallast() []byte {
	if os.Getenv("GOGC") != "" || debug.SetMemoryLimit(-1) < ballastLimit {
		return nil
	}
	return make([]byte, ballastSize)
}
