package protocol

import (
	"fmt"
	"strconv"
	"time"
)

// ReadValue reads the value of a header of an item. to points to a text, a number, a duration or a time, which stays as it is if the value
// cannot be read.
func ReadValue(to any, value string) error {
	switch to := to.(type) {
	case *string:
		*to = value
		return nil
	case *State:
		*to = State(value)
		return nil
	case *int:
		return readAs(to, value, strconv.Atoi)
	case *int64:
		return readAs(to, value, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
	case *uint64:
		return readAs(to, value, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	case *time.Duration:
		return readAs(to, value, time.ParseDuration)
	case *Duration:
		return readAs(to, value, func(s string) (Duration, error) {
			d, err := time.ParseDuration(s)
			return Duration(d), err
		})
	case *time.Time:
		return readAs(to, value, func(s string) (time.Time, error) { return time.Parse(time.RFC3339Nano, s) })
	}
	return fmt.Errorf("no header has a value for a %T", to)
}

// readAs sets a value from a text if the text can be read.
func readAs[T any](to *T, text string, read func(string) (T, error)) error {
	value, err := read(text)
	if err == nil {
		*to = value
	}
	return err
}
