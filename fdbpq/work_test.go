package fdbpq_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// However many queues a Work has, each operation finds what earlier ones have done to its queue.
func TestWorkOfManyQueues(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		names := make([]string, 40)
		for i := range names {
			names[i] = fmt.Sprint("queue-", i)
			f.configure(names[i], `{"max_length":1}`)
		}
		f.together(func(tx kv.Tx, w *fdbpq.Work) error {
			for _, round := range []error{nil, fdbpq.ErrFull} {
				for _, name := range names {
					pushed, err := w.Queue(name).Push(tx, fdbpq.NewItem{Payload: []byte("x")})
					if err != nil {
						return err
					}
					if !errors.Is(pushed[0].Err, round) {
						t.Errorf("a push to %s: %v, expected %v", name, pushed[0].Err, round)
					}
				}
			}
			return nil
		})
		for _, name := range names {
			if n := f.counts(name); n.Ready != 1 {
				t.Errorf("%s has %+v", name, n)
			}
		}
	})
}
