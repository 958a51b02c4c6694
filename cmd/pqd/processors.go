package main

import (
	"os"
	"runtime"
)

// spareProcessors is how many more threads may run Go than it takes by itself.
// With the embedded store there is always one in a sync of the log: it counts as
// running until Go's monitor looks, 20 µs later or more, and takes its place
// from it. docs/performance/history.md says what that is worth.
const spareProcessors = 2

// addSpareProcessors does so, unless somebody has chosen their number. From then
// on Go does not follow changes of a container's limit.
func addSpareProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareProcessors)
	}
}
