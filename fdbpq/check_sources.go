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

// foundLink checks what a link is.
func foundLink(_ *walk, r *foundRow) error {
	err := r.ofBorn()
	if err == nil {
		_, err = parseLink(r.Value)
	}
	return err
}

// foundOut checks that what a link says it holds is what it holds.
func foundOut(w *walk, r *foundRow) error {
	if err := r.ofBorn(); err != nil {
		return err
	}
	var o out
	if err := o.parse(r.Value); err != nil {
		return err
	}
	k := tuple.Read(r.rest)
	k.Int()
	name := k.Text()
	for _, p := range o.held[:o.holds(r.state)] {
		item := holding{r.queue, linkHolder(name), p}
		if _, is := w.held[item]; !is {
			w.Problem("queue %q: the link %q does not hold the item at %v of its batch", r.queue, name, p)
			continue
		}
		w.held[item] = true
	}
	return nil
}

// balanceHeld reports items that nobody will end.
func (w *walk) balanceHeld() {
	for item, known := range w.held {
		if !known {
			w.Problem("queue %q: the item at %v is held by %q, which does not know it", item.queue, item.at, item.holder)
		}
	}
}
