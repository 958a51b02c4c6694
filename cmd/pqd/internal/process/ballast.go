package process

import (
	"os"
	"runtime/debug"
)

const (
	// ballastMost is the ballast of a heap without a limit.
	ballastMost = 64 << 20

	// ballastLeast is the smallest ballast that makes a difference.
	ballastLeast = 32 << 20

	// ballastPart: the ballast is at most this part of GOMEMLIMIT, which includes it.
	ballastPart = 8
)

// NewBallast returns memory that is never touched, so it takes none of the machine's
// memory. But Go counts it: Go collects garbage when the heap has doubled. Under load
// some 4 MB are in use, and Go would collect 20 times a second, which is 2 to 3 % of all
// work and more with leases. With the ballast Go collects once a second, and keeps up to
// 70 MB more of garbage.
func NewBallast() []byte {
	size := min(ballastMost, debug.SetMemoryLimit(-1)/ballastPart)
	if os.Getenv("GOGC") != "" || size < ballastLeast {
		return nil
	}
	return make([]byte, size)
}
