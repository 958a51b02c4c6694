package source

import "github.com/pqbridge/pqbridge/fdbpq/internal/named"

// Error says what is wrong with a source.
type Error struct{ Text string }

func (e *Error) Error() string { return "source: " + e.Text }

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
