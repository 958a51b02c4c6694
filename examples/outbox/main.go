//go:build fdb

// The outbox in one transaction: an order and the job to ship it are written to
// FoundationDB together, so there is never one without the other. No relay reads
// an outbox table, and no order is shipped twice because a relay has crashed.
//
//	go run -tags fdb ./examples/outbox /etc/foundationdb/fdb.cluster 4711 'three chairs'
//
// A pqd with PQ_STORE=fdb:/etc/foundationdb/fdb.cluster delivers the job, at once
// to a pop that waits for it: pq pop shipping --wait 1m
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/apple/foundationdb/bindings/go/src/fdb/tuple"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() (err error) {
	if len(os.Args) != 4 {
		return errors.New("usage: outbox <cluster file> <order number> <what>")
	}
	// The same key space as pqd: without ?prefix= in PQ_STORE that is all of it.
	db, err := fdb.Open(os.Args[1], fdb.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	store, err := fdbpq.Open(ctx, db, fdbpq.Options{})
	if err != nil {
		return err
	}
	return order(ctx, store, os.Args[2], os.Args[3])
}

var errOrdered = errors.New("ordered already")

// order writes the order and pushes the job to ship it. A session's transactions
// take effect exactly once, also when FoundationDB cannot tell whether a commit
// succeeded. fn may run several times, so it does nothing beyond the transaction.
func order(ctx context.Context, store *fdbpq.Store, number, what string) error {
	shipping := store.Queue("shipping")
	// Rows of the store begin with one letter; a longer word keeps out of its way.
	key := tuple.Tuple{"orders", number}.Pack()
	session := store.Session()
	defer session.Release()
	var pushed []fdbpq.Pushed
	err := session.Update(ctx, func(tx kv.Tx) error {
		there, err := tx.Get(key)
		if err != nil {
			return err
		}
		if there != nil {
			return errOrdered
		}
		tx.Set(key, []byte(what))
		pushed, err = shipping.Push(tx, fdbpq.NewItem{Payload: []byte(number + ": " + what)})
		if err != nil {
			return err
		}
		return pushed[0].Err // not nil: this item was refused, and then there is no order either
	})
	if err != nil {
		return fmt.Errorf("order %s: %w", number, err)
	}
	fmt.Printf("order %s: %s, to be shipped as %s\n", number, what, pushed[0].ID)
	return nil
}
