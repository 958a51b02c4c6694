package waiting

import "errors"

// Why a wait ended, beside the reason of [Pops].Close and a [FullError].
var (
	ErrOver = errors.New("nothing arrived within the time given")
	ErrGone = errors.New("the client stopped listening for its answer")

	// ErrQuota: the tenant has as many waiting pops as it may.
	ErrQuota = errors.New("too many pops of the tenant wait")
)

// FullError names the limit because of which a pop may not wait, or wait on.
type FullError struct{ text string }

func (e *FullError) Error() string { return e.text }
