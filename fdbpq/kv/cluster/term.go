package cluster

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// Term is a time in which this member is active. It is a kv.DB: its transactions fail with ErrUnavailable once the
// term is over, and belong to no later term. A program has to forget its memory of the store when the term ends.
type Term struct {
	kv.DB
	local   *local.Term
	epoch   uint64
	written time.Time
	over    chan struct{}
	reason  error // set before over is closed
}

// Brief implements [kv.Brief].
func (t *Term) Brief() int { return t.local.Brief() }

// Epoch is the number of the term. No other term of any member has it.
func (t *Term) Epoch() uint64 { return t.epoch }

// LastWrite is when the last transaction before this term was ready to be written to the log, or somewhat later, by
// the monotonic clock of the member that wrote it, or of one that followed the log at that time. ok is false when no
// member knows, because none of them ran.
func (t *Term) LastWrite() (at time.Time, ok bool) { return t.written, !t.written.IsZero() }

// Over is closed when the term is over.
func (t *Term) Over() <-chan struct{} { return t.over }

// Reason says why the term is over, once it is.
func (t *Term) Reason() error { return t.reason }

// end ends the term.
func (t *Term) end(reason error) {
	t.reason = reason
	t.local.End(reason)
	close(t.over)
}
