package waiting

import "errors"

// Why a wait ended.
var (
	ErrOver = errors.New("nothing arrived within the time given")
	ErrGone = errors.New("the client stopped listening for its answer")
)

// FullError says which limit does not let a pop wait, or wait on.
type FullError struct{ text string }

func (e *FullError) Error() string { return e.text }
