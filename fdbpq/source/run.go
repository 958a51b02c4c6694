package source

import (
	"cmp"
	"time"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Term is how long a claim lasts after its bridge has renewed it.
const Term = 5 * time.Second

// TermAlone is the Term of a process that has the store for itself: nobody waits for its end, so it need not write.
const TermAlone = time.Hour

// Run is who runs a source, and what he says of it.
type Run struct {
	Runner  string // "": no process runs it, which is no problem until Until
	Until   int64  // store time
	Last    uint64 // sequence of the stream, as he has seen it
	Problem string // why he cannot read the stream
	Since   int64  // wall clock of the problem
}

// vacate notes that no process runs the source. It counts as missing a runner when a term has passed.
func (run *Run) vacate(now int64) { run.Runner, run.Until = "", now+int64(Term) }

// Holds reports whether a bridge runs the source.
func (run *Run) Holds(now int64) bool { return run.Runner != "" && run.Until > now }

func (run *Run) pack() []byte {
	b := tuple.AppendInt(nil, rowVersion)
	for _, n := range []int64{run.Until, int64(run.Last), run.Since} {
		b = tuple.AppendInt(b, n)
	}
	return tuple.AppendString(tuple.AppendString(b, run.Runner), run.Problem)
}

func (run *Run) parse(b []byte) error {
	r := tuple.Read(b)
	var version, last int64
	r.Ints(&version, &run.Until, &last, &run.Since)
	run.Last, run.Runner, run.Problem = uint64(last), r.Text(), r.Text()
	return cmp.Or(r.Err(), noun.CheckVersion(version, rowVersion))
}
