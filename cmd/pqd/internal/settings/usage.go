package settings

import "fmt"

// UsageError is a mistake in how pqd was called.
type UsageError struct{ error }

// Usagef is such an error.
func Usagef(format string, args ...any) error {
	return UsageError{fmt.Errorf(format, args...)}
}
