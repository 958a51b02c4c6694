// Package expense measures the cost of a message in tests: the bytes that the program allocates, and the processor
// time. The bounds are the same for every message.
package expense

import (
	"fmt"
	"runtime"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

const (
	// times is how many times its own size a message may allocate. Client, server and bridge, which tests have in
	// one program, each have a copy or two of it.
	times = 16

	// more is how much any message may allocate besides.
	more = 1 << 20

	// Bundled is how many bytes each request of a bundle counts for beside its own: in bridge and store it is a
	// request like a single one, and takes up to a KiB however short it is.
	Bundled = 64

	// processor is how long a message may keep a processor busy on a machine that runs the tests alone, and again for
	// each MiB: a bundle is up to a thousand requests.
	processor = 50 * time.Millisecond

	// beside is how many times longer a message may take by day, where other tests share caches and cores.
	beside = 2

	// attempts is how often a message that costs too much is measured. Other work of the program is not its cost, and on a
	// busy machine lasts longer than a few attempts.
	attempts = 32
)

// Spent is a cost.
type Spent struct {
	Bytes     uint64        // allocated
	Processor time.Duration // of all threads; 0 where the system does not say
}

func (s Spent) String() string {
	return fmt.Sprintf("%8.1f KiB %7.2f ms", float64(s.Bytes)/1024, float64(s.Processor)/float64(time.Millisecond))
}

// Of is the cost of a function, with everything that the program does meanwhile.
func Of(do func()) Spent {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := spent()
	do()
	took := spent() - began
	runtime.ReadMemStats(&after)
	return Spent{after.TotalAlloc - before.TotalAlloc, took}
}

// Least is the cost of a message, and the bound that it exceeds: the least of some attempts, unless the first is
// within the bounds. prepare prepares the message, send sends it and returns the bytes of the message and its
// answer.
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

// Part is the part of the bound of a message of some bytes that was allocated.
func (s Spent) Part(bytes int) float64 { return float64(s.Bytes) / float64(mostBytes(bytes)) }

func mostBytes(bytes int) uint64 { return uint64(detector * (times*bytes + more)) }

// Beyond names the bound that a message of some bytes exceeds, "" if it exceeds none.
func (s Spent) Beyond(bytes int) string {
	if most := mostBytes(bytes); s.Bytes > most {
		return fmt.Sprintf("%d bytes allocated for %d: expected up to %d", s.Bytes, bytes, most)
	}
	most := patience.Times(detector * (processor + processor*time.Duration(bytes)>>20))
	if !nightly.Runs() {
		most *= beside
	}
	if s.Processor > most {
		return fmt.Sprintf("%s of a processor for %d bytes: expected up to %s", s.Processor, bytes, most)
	}
	return ""
}
