package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// walk is the state of a Check under way.
type walk struct {
	inside.Findings
	births    named.Births
	positions map[named.ID]bool // whether a source that has a definition has a position
}

var errUndefined = errors.New("it is of no source")

func (w *walk) all(ctx context.Context, db kv.DB) ([]string, error) {
	for _, part := range []struct {
		space string
		check func(of named.ID, row []byte) error
	}{
		{layout.SpaceSource, w.definition}, {layout.SpacePosition, w.position}, {layout.SpaceSourceRunner, w.runner},
	} {
		row := func(pair kv.Pair) error {
			of, err := w.births.ID(ctx, part.space, pair.Key)
			if err == nil {
				err = part.check(of, pair.Value)
			}
			return err
		}
		if err := w.Visit(ctx, db, part.space, row); err != nil {
			return nil, fmt.Errorf("check sources: %w", err)
		}
	}
	for of, has := range w.positions {
		if !has {
			w.Problem("source %q of queue %q has no position", of.Name, of.Queue)
		}
	}
	return w.Problems, nil
}

// definition checks what a source is. That comes before the other rows of it.
func (w *walk) definition(of named.ID, row []byte) error {
	w.positions[of] = false
	_, err := parseConfig(row)
	return err
}

// position checks how far a source is.
func (w *walk) position(of named.ID, row []byte) error {
	if _, defined := w.positions[of]; !defined {
		return errUndefined
	}
	w.positions[of] = true
	return new(Position).parse(row)
}

// runner checks who runs a source.
func (w *walk) runner(of named.ID, row []byte) error {
	if _, defined := w.positions[of]; !defined {
		return errUndefined
	}
	return new(Run).parse(row)
}
