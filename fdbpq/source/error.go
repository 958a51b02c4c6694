package source

import (
	"errors"

	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
)

// Error says what is wrong with a source.
type Error struct{ Text string }

func (e *Error) Error() string { return "source: " + e.Text }

const (
	rowVersion = 1

	// noun is how errors call a source.
	noun = named.Noun("source")
)

// wrong has an error about the fields of an object say that they are of a source.
func wrong(err error) error {
	if err == nil {
		return nil
	}
	return &Error{err.Error()}
}

// CheckName returns an error when a source may not have the name.
func CheckName(name string) error {
	return wrong(named.CheckName(name))
}

// ErrNone: the queue has no source of this name.
var ErrNone = errors.New("no such source")

// ErrMoved: the source is elsewhere than the caller has found it. Nothing was done.
var ErrMoved = errors.New("the source has moved")

// ErrTooMany: there are as many sources as there may be.
var ErrTooMany = errors.New("too many sources")
