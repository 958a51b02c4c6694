package source_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/fdbpq/source"
)

// A program that copies the messages of a stream of its own into a queue fetches them from the source's
// position, and feeds them. When it has fetched twice, or another program was faster, the source has moved,
// and nothing is pushed.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "source")
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
	sources := source.New(store)
	session := store.Session()
	defer session.Release()
	jobs := store.Queue("jobs")

	stream := []string{"first order", "second order", "third order"}
	fetch := func(behind uint64) (messages []source.Message) {
		for i := behind; i < uint64(len(stream)); i++ {
			messages = append(messages, source.Message{
				Mark: source.Mark{Seq: i + 1}, // a program that wants to notice another stream adds time, subject and content
				Item: fdbpq.NewItem{Payload: []byte(stream[i])},
			})
		}
		return messages
	}
	err = session.Update(ctx, func(tx kv.Tx) error {
		_, err := sources.Set(tx, jobs, "orders", []byte(`{"remote":"shop","stream":"ORDERS"}`), func(source.Config) error { return nil })
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	var orders source.Source
	err = store.View(ctx, func(r kv.Reader) (err error) {
		orders, err = sources.Get(r, jobs, "orders")
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 { // as two programs may do
		err := session.Update(ctx, func(tx kv.Tx) error {
			fed, err := sources.Feed(tx, jobs, &orders, fetch(orders.Position.Seq), nil)
			if err == nil {
				fmt.Println("fed", fed.Pushed)
			}
			return err
		})
		if errors.Is(err, source.ErrMoved) {
			fmt.Println(err)
		} else if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// fed 3
	// the source has moved
}
