package link

import (
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
)

// Error says what is wrong with a link, or with what its taker asks for.
type Error struct {
	Refusal Refusal
	Text    string
}

func (e *Error) Error() string { return "link: " + e.Text }

// Refusal is why a taker gets nothing.
type Refusal string

const (
	Malformed   Refusal = ""
	Forbidden   Refusal = "forbidden"    // the link is for another taker
	GiverBehind Refusal = "giver_behind" // this store has lost its end
	TakerBehind Refusal = "taker_behind" // the other one has
)

func wrong(format string, args ...any) error { return refuse(Malformed, format, args...) }

func refuse(why Refusal, format string, args ...any) error {
	return &Error{why, fmt.Sprintf(format, args...)}
}

var (
	// ErrNone: the queue has no link of this name.
	ErrNone = errors.New("no such link")
	// ErrTooMany: there are as many links as there may be.
	ErrTooMany = errors.New("too many links")
)

const (
	noun = named.Noun("link")

	version = 1 // of both rows
)
