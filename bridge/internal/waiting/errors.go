package waiting

import "errors"

// Why a wait ended.
var (
	ErrOver = errors.New("nothing arrived within the time given")
	ErrGone = errors.New("the client stopped listening for its answer")

	// ErrQuota: as many pops of the tenant wait as may.
	ErrQuota = errors.New("too many pops of the tenant wait")
)

// FullError says which limit does not let a pop wait, or wait on.
type FullError struct{ text string }

func (e *FullError) Error() string { return e.text }
