package named

import (
	"context"
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Births are the generations at which queues were made, as a check of rows reads them once for each queue.
type Births struct {
	DB      kv.DB
	Born    func(r kv.Reader, queue string) (int64, error) // of one queue
	NoQueue error                                          // by which Born says that there is no such queue

	known map[string]int64 // -1: there is no such queue
}

// BirthsOf are the births of the queues of a store.
func BirthsOf(store *fdbpq.Store) Births {
	return Births{
		DB: store.Inside().DB, NoQueue: fdbpq.ErrNoQueue,
		Born: func(r kv.Reader, queue string) (int64, error) { return store.Queue(queue).Born(r) },
	}
}

// ID reads of which definition a row is, and returns an error unless it may have its name and its queue lives.
func (b *Births) ID(ctx context.Context, space string, key []byte) (ID, error) {
	id, err := ParseID(space, key)
	if err == nil {
		err = CheckName(id.Name)
	}
	if err == nil {
		err = b.Check(ctx, id.Home)
	}
	return id, err
}

// Lives reports whether the queue of the home exists, and was made when the home says.
func (b *Births) Lives(ctx context.Context, h Home) (bool, error) {
	born, known := b.known[h.Queue]
	if known {
		return born == h.Born, nil
	}
	err := b.DB.View(ctx, func(r kv.Reader) (err error) {
		born, err = b.Born(r, h.Queue)
		return err
	})
	if errors.Is(err, b.NoQueue) {
		born, err = -1, nil
	}
	if err != nil {
		return false, err
	}
	if b.known == nil {
		b.known = make(map[string]int64)
	}
	b.known[h.Queue] = born
	return born == h.Born, nil
}

// Check returns an error unless the queue of the home lives.
func (b *Births) Check(ctx context.Context, h Home) error {
	lives, err := b.Lives(ctx, h)
	if err == nil && !lives {
		err = fmt.Errorf("it is of no queue that was born in %d", h.Born)
	}
	return err
}
