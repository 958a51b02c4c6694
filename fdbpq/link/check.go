package link

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// walk is the state of a Check under way.
type walk struct {
	inside.Findings
	store       *fdbpq.Store
	births      named.Births
	links       map[named.ID]bool
	held        map[holding]bool // items that links hold, and whether the links know that
	generations map[string]int64 // of queues; -1: there is no such queue
}

func (w *walk) all(ctx context.Context, db kv.DB) ([]string, error) {
	for _, part := range []struct {
		space string
		check func(context.Context, kv.Pair) error
	}{
		{layout.SpaceLeased, w.item}, {layout.SpaceLink, w.definition}, {layout.SpaceOut, w.batch},
	} {
		row := func(pair kv.Pair) error { return part.check(ctx, pair) }
		if err := w.Visit(ctx, db, part.space, row); err != nil {
			return nil, fmt.Errorf("check links: %w", err)
		}
	}
	for item, known := range w.held {
		if !known {
			w.Problem("queue %q: the item at %v is held by %q, which does not know it", item.queue, placeOf(item.place), item.holder)
		}
	}
	return w.Problems, nil
}

// holding is an item that a link holds.
type holding struct{ queue, holder, place string }

// placeOf shows a place. Its bytes were read before.
func placeOf(name string) layout.Place {
	p, _ := layout.ParsePlace([]byte(name))
	return p
}

// item notes an item that a link holds. A leased item that cannot be read is damage of the queue, which the store's check reports.
func (w *walk) item(ctx context.Context, pair kv.Pair) error {
	due, _, err := tuple.ConsumeInt(pair.Value)
	if err != nil || due != int64(layout.NoEnd) {
		return nil
	}
	h, place, err := named.ParseHome(layout.SpaceLeased, pair.Key) // whose second part is the present generation
	if err != nil {
		return nil
	}
	generation, err := w.generation(ctx, h.Queue)
	if err != nil || h.Born != generation {
		return err
	}
	p, err := layout.ParsePlace(place)
	if err != nil {
		return nil
	}
	item, err := layout.ParseItem(layout.SpaceLeased, pair.Value, p)
	if err == nil && strings.HasPrefix(item.Holder, holderPrefix) {
		w.held[holding{h.Queue, item.Holder, string(place)}] = false
	}
	return nil
}

// generation is that of a queue, -1 if there is no such queue.
func (w *walk) generation(ctx context.Context, queue string) (generation int64, err error) {
	if generation, known := w.generations[queue]; known {
		return generation, nil
	}
	err = w.store.View(ctx, func(r kv.Reader) error {
		generation, err = w.store.Queue(queue).Generation(r)
		return err
	})
	if errors.Is(err, fdbpq.ErrNoQueue) {
		generation, err = -1, nil
	}
	if err == nil {
		w.generations[queue] = generation
	}
	return generation, err
}

// definition checks what a link is.
func (w *walk) definition(ctx context.Context, pair kv.Pair) error {
	id, err := w.births.ID(ctx, layout.SpaceLink, pair.Key)
	if err != nil {
		return err
	}
	w.links[id] = true
	_, err = parseConfig(pair.Value)
	return err
}

// batch checks that a link holds what it says it holds.
func (w *walk) batch(ctx context.Context, pair kv.Pair) error {
	id, err := w.births.ID(ctx, layout.SpaceOut, pair.Key)
	if err != nil {
		return err
	}
	if !w.links[id] {
		return errors.New("a batch of no link")
	}
	var b batch
	if err := b.parse(pair.Value); err != nil {
		return err
	}
	generation, err := w.generation(ctx, id.Queue)
	if err != nil {
		return err
	}
	for _, place := range b.living(generation) {
		item := holding{id.Queue, holder(id.Name), string(place)}
		if _, is := w.held[item]; !is {
			w.Problem("queue %q: the link %q does not hold the item at %v of its batch", id.Queue, id.Name, placeOf(item.place))
			continue
		}
		w.held[item] = true
	}
	return nil
}
