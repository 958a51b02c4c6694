// Package patience says how long tests wait for what must happen.
//
// It takes milliseconds as a rule. The bound is for what never happens, so it is long, and longer
// on a machine that has much else to do: a test that fails only there has found nothing.
package patience

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	// usual is how many programs a processor has to run while the tests run and nothing else
	// does: those of several packages run at a time, and each starts programs.
	usual = 4

	// most bounds the factor: a test that hangs should end before the night does.
	most = 10
)

// factor is how much longer things may take than on a machine that runs the tests alone. It
// is that of the moment when the test's program starts.
var factor = factorAt(load(), runtime.NumCPU())

func factorAt(load float64, processors int) float64 {
	return min(max(load/float64(usual*processors), 1), most)
}

// Long is how long a test waits for what must happen.
var Long = Times(3 * time.Minute).Round(time.Second)

// Attempt is how long one attempt of a request takes that is repeated. A server that is not ready yet
// leaves a request without an answer, so that an attempt which had all of Long would be the only one.
func Attempt() time.Duration { return Times(2 * time.Second) }

// Times is how long something may take that takes so long at most on a machine that runs the
// tests alone.
func Times(d time.Duration) time.Duration { return time.Duration(factor * float64(d)) }

// load is how many programs ran, or waited for a processor, on average over the last minute; 0
// where the system does not say.
func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	return parse(string(text))
}

func parse(text string) float64 {
	first, _, _ := strings.Cut(text, " ")
	load, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return load
}
