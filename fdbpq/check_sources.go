package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// ofBorn checks whose the row of a link is.
func (r *foundRow) ofBorn() error {
	born, _, err := tuple.ConsumeInt(r.rest)
	if err == nil && (r.living() != nil || r.state.born != born) {
		err = fmt.Errorf("it is of no queue that was born in %d", born)
	}
	return err
}
