package fdbpq

import (
	"errors"
	"strconv"
)

// Most is how often something may happen: a number in decimal, or "" for as often as another setting
// says.
type Most string

// MarshalJSON implements json.Marshaler.
func (m Most) MarshalJSON() ([]byte, error) {
	if m == "" {
		return []byte(`""`), nil
	}
	return []byte(m), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Most) UnmarshalJSON(text []byte) error {
	if string(text) == `""` {
		*m = ""
		return nil
	}
	n, err := strconv.ParseUint(string(text), 10, 63)
	if err != nil {
		return errors.New(`expected a number from 0 on, or ""`)
	}
	*m = Most(strconv.FormatUint(n, 10))
	return nil
}

// or is the number, or that of the other setting.
func (m Most) or(other int64) int64 {
	n, err := strconv.ParseInt(string(m), 10, 64)
	if err != nil {
		return other
	}
	return n
}
