package link

import "fmt"

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
