// Package expense measures what a program spends on one message, for tests: the bytes that it allocates, and
// the processor time. The bounds are the same whatever the message is.
package expense

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/patience"
)

const (
	// times is how many times its own bytes a message may cost. Client, server and bridge, which tests
	// have in one program, each have a copy or two of it.
	times = 16

	// more is what any message may cost besides.
	more = 1 << 20

	// Bundled is how many bytes each request of a bundle counts for beside its own: on its way, in bridge and store, it is
	// a request like one that comes alone, and so takes up to a KiB however short it is.
	Bundled = 64

	// processor is how long a message may keep a processor busy on a machine that runs the tests alone.
	processor = 50 * time.Millisecond

	// beside is how many times longer that takes in the gate, whose other tests share caches and cores with it.
	beside = 2

	// attempts is how often a message is measured that costs too much: what else the program does is
	// not its cost.
	attempts = 4
)

// Spent is what was spent.
type Spent struct {
	Bytes     uint64        // allocated
	Processor time.Duration // of all threads; 0 where the system does not say
}

func (s Spent) String() string {
	return fmt.Sprintf("%8.1f KiB %7.2f ms", float64(s.Bytes)/1024, float64(s.Processor)/float64(time.Millisecond))
}

// Of is what a function costs, with all that the program does meanwhile.
func Of(do func()) Spent {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := spent()
	do()
	took := spent() - began
	runtime.ReadMemStats(&after)
	return Spent{after.TotalAlloc - before.TotalAlloc, took}
}

// Least is what a message costs, and the bound that it is beyond: the least of a few attempts, unless the first
// is within the bounds. prepare makes ready what send sends; send returns the bytes of the message and its answer.
func Least(prepare func(), send func() (bytes int)) (least Spent, beyond string) {
	for i := range attempts {
		bytes := 0
		prepare()
		again := Of(func() { bytes = send() })
		if i == 0 {
			least = again
		}
		least = Spent{min(least.Bytes, again.Bytes), min(least.Processor, again.Processor)}
		if beyond = least.Beyond(bytes); beyond == "" {
			break
		}
	}
	return least, beyond
}

// Part is which part of the bound of a message of some bytes was allocated.
func (s Spent) Part(bytes int) float64 { return float64(s.Bytes) / float64(mostBytes(bytes)) }

func mostBytes(bytes int) uint64 { return uint64(detector * (times*bytes + more)) }

// Beyond says which bound a message of some bytes is beyond, "": it is within both.
func (s Spent) Beyond(bytes int) string {
	if most := mostBytes(bytes); s.Bytes > most {
		return fmt.Sprintf("%d bytes allocated for %d: expected up to %d", s.Bytes, bytes, most)
	}
	most := patience.Times(detector * processor)
	if testing.Short() {
		most *= beside
	}
	if s.Processor > most {
		return fmt.Sprintf("%s of a processor for %d bytes: expected up to %s", s.Processor, bytes, most)
	}
	return ""
}
