package main

import (
	"os"
	"runtime"
)

// spareProcessors is how many more threads may run Go than there are
// processors. With the embedded store there is always one in a sync of the log:
// it counts as running until Go's monitor looks, 20 µs later or more, and
// takes its place from it. On two processors the spare ones are worth 2 % of
// pops and 5 % of leases with 64 clients, and 5 to 8 % with 256.
const spareProcessors = 2

// addSpareProcessors does so, unless somebody has chosen their number.
func addSpareProcessors() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareProcessors)
	}
}
