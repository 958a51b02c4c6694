package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// foundSource checks what a source is.
func foundSource(_ *walk, r *foundRow) error {
	err := r.ofBorn()
	if err == nil {
		_, err = parseSource(r.Value)
	}
	return err
}

// foundPosition checks how far a source is.
func foundPosition(_ *walk, r *foundRow) error {
	err := r.ofBorn()
	if err == nil {
		err = new(SourcePosition).parse(r.Value)
	}
	return err
}

// foundSourceRunner checks who runs a source.
func foundSourceRunner(_ *walk, r *foundRow) error {
	err := r.ofBorn()
	if err == nil {
		err = new(SourceRun).parse(r.Value)
	}
	return err
}

// ofBorn checks whose the row of a source or a link is.
func (r *foundRow) ofBorn() error {
	born, _, err := tuple.ConsumeInt(r.rest)
	if err == nil && (r.living() != nil || r.state.born != born) {
		err = fmt.Errorf("it is of no queue that was born in %d", born)
	}
	return err
}
