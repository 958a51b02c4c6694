package desk

import (
	"errors"
	"testing"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// changing is a change that fails its transaction with an error, if there is one.
type changing struct {
	Change
	request.Request
	err error
}

func (c *changing) Head() *request.Request                 { return &c.Request }
func (c *changing) Act() (bool, []any)                     { return false, nil }
func (c *changing) End()                                   {}
func (c *changing) Items() []fdbpq.Item                    { return nil }
func (c *changing) Read(*codec.Wire) *failure.Failure      { return nil }
func (c *changing) SettlesLease() *fdbpq.Lease             { return nil }
func (c *changing) Apply(*ChangeTx) ([]fdbpq.Event, error) { return nil, c.err }

// A run of a transaction that ends before a change does not charge what an earlier run has done for it, and one that makes the change
// does not refuse it for the reason of an earlier run.
func TestChangesForgetTheRunBefore(t *testing.T) {
	t.Parallel()
	db, err := local.Open(t.TempDir(), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	l := &Changes{Desk: &Desk{Store: store, Reserve: func() error { return nil }}}
	l.Begin("jobs")
	fails := errors.New("the transaction fails")
	made, failing, behind := new(changing), &changing{err: fails}, new(changing)
	for _, c := range []*changing{made, failing, behind} {
		c.Verb, c.RowsCost, c.Failure = new(request.Verb), 7, failure.Newf(429, "the store was full")
	}
	l.requests, l.queue = []Work{made, failing, behind}, l.Queue
	var at int
	err = db.Update(t.Context(), func(tx kv.Tx) error {
		at, err = l.Do(tx, nil)
		return err
	})
	if at != 1 || !errors.Is(err, fails) {
		t.Fatalf("change %d fails the transaction: %v", at, err)
	}
	if made.Failure != nil || made.RowsCost != 0 || behind.RowsCost != 0 {
		t.Errorf("the change is refused for %v, and costs %d; the one that the run did not come to costs %d", made.Failure, made.RowsCost, behind.RowsCost)
	}
}
