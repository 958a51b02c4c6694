package process

import (
	"os"
	"runtime"
)

// spareProcessors is how many more threads run Go code than by default. With the embedded
// store one thread is nearly always in a sync of the log. It counts as running until Go's
// monitor notices, 20 µs later or more.
const spareProcessors = 2

// AddSpareProcessors adds them, unless the operator has set GOMAXPROCS. From then on
// Go does not follow changes of a container's limit.
func AddSpareProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareProcessors)
	}
}
