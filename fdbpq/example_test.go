package fdbpq_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A worker moves money between two accounts. It pops the order from one queue, changes
// two rows of its own, and pushes the receipt to another queue: all in one transaction,
// which takes effect exactly once, also when the process dies or the result of a commit
// is unknown.
func Example_transfer() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "transfer")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := local.Open(dir, local.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	store, err := fdbpq.Open(ctx, db, fdbpq.Options{})
	if err != nil {
		log.Fatal(err)
	}
	session := store.Session()
	defer session.Release()

	// Rows of the queues begin with one letter; a longer word keeps out of their way.
	account := func(name string) []byte {
		return tuple.AppendString(tuple.AppendString(nil, "account"), name)
	}
	push := func(tx kv.Tx, queue, text string) error {
		pushed, err := store.Queue(queue).Push(tx, fdbpq.NewItem{Payload: []byte(text)})
		if err != nil {
			return err
		}
		return pushed[0].Err // of an item that the queue refuses
	}
	err = session.Update(ctx, func(tx kv.Tx) error {
		tx.Add(account("alice"), 100)
		for _, amount := range []string{"30", "90", "50"} {
			if err := push(tx, "transfers", amount); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	// transfer may run more than once, so it does nothing beyond the transaction.
	transfer := func(tx kv.Tx) error {
		popped, err := store.Queue("transfers").Pop(tx, fdbpq.Selection{Limit: 1})
		if err != nil || len(popped.Items) == 0 {
			return err
		}
		order := string(popped.Items[0].Payload)
		amount, err := strconv.ParseInt(order, 10, 64)
		if err != nil {
			return err
		}
		balance, err := tx.Get(account("alice"))
		if err != nil {
			return err
		}
		if int64(kv.DecodeInteger(balance)) < amount {
			return push(tx, "receipts", "refused "+order)
		}
		tx.Add(account("alice"), -amount)
		tx.Add(account("bob"), amount)
		return push(tx, "receipts", "moved "+order)
	}
	for range 3 {
		if err := session.Update(ctx, transfer); err != nil {
			log.Fatal(err)
		}
	}

	err = store.View(ctx, func(r kv.Reader) error {
		receipts, err := store.Queue("receipts").Peek(r, fdbpq.Selection{Limit: 10})
		if err != nil {
			return err
		}
		for _, receipt := range receipts.Items {
			fmt.Println(string(receipt.Payload))
		}
		for _, name := range []string{"alice", "bob"} {
			balance, err := r.Get(account(name))
			if err != nil {
				return err
			}
			fmt.Println(name, "has", kv.DecodeInteger(balance))
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// moved 30
	// refused 90
	// moved 50
	// alice has 20
	// bob has 80
}
