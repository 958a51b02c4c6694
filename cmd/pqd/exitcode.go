package main

import (
	"errors"
	"fmt"
	"os"
)

// usageError is a mistake in how pqd was called.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// exitCode reports err and turns it into the code of the process.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "pqd: %v\n", err)
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}
