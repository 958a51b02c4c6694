package fdbpq

import (
	"errors"
	"fmt"
)

// FormatVersion is the layout of the rows that this version reads and writes. It begins at 2: programs before the first release
// wrote 1, and each of the two refuses the other's store.
const FormatVersion = 2

// ErrFormat: the store, or a queue, was written by an incompatible version.
var ErrFormat = errors.New("incompatible store format")

// stateFormat is the error about a queue whose state has a format that this program does not read. It is an [ErrFormat].
type stateFormat struct{ format, oldest, newest int64 }

func (f stateFormat) Error() string {
	return fmt.Sprintf("queue state has format %d: this version reads %d to %d", f.format, f.oldest, f.newest)
}

func (stateFormat) Is(target error) bool { return target == ErrFormat }
