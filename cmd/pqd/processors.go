package main

import (
	"os"
	"runtime"
)

// spareProcessors is how many more threads run Go than it would use by itself.
// With the embedded store there is always one in a sync of the log: it counts as
// running until Go's monitor looks, 20 µs later or more, and takes its place
// from it. docs/performance/history.md has the gain.
const spareProcessors = 2

// addSpareProcessors adds them, unless the operator has set GOMAXPROCS. From then on
// Go does not follow changes of a container's limit.
func addSpareProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareProcessors)
	}
}
