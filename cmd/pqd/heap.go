package main

import (
	"os"
	"runtime/debug"
)

// ballast is memory that nobody touches, so the machine need not have it. But it
// counts when Go decides whether to look for garbage, which it does when the heap
// has doubled. Under load some 4 MB are in use: Go would go through them 20 times
// a second, which is 2 to 3 % of all work, and now does twice. For that, up to
// 35 MB more of garbage lie about.
var ballast []byte

const (
	ballastSize = 32 << 20

	// ballastLimit is the least GOMEMLIMIT that has room for it: it counts there
	// as well.
	ballastLimit = 8 * ballastSize
)

func init() {
	if os.Getenv("GOGC") == "" && debug.SetMemoryLimit(-1) >= ballastLimit {
		ballast = make([]byte, ballastSize)
	}
}
