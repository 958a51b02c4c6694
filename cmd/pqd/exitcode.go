package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// exitCode reports err and turns it into the code of the process. After a failed write to the disk of the store pqd does
// not come here: store.GiveUp ends it at once.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "pqd: %v\n", err)
	if errors.As(err, new(settings.UsageError)) {
		return 2
	}
	return 1
}
