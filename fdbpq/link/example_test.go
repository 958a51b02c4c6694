package link_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/fdbpq/link"
)

// A shop gives its orders to a warehouse, which has a store of its own. The warehouse asks for a batch, pushes its items, and
// asks for the next one: by that the shop knows that it may forget the first. A real taker keeps the number and the id of its
// last batch in the transaction that pushes the items.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "link")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	shop, closeShop := open(ctx, dir+"/shop")
	defer closeShop()
	warehouse, closeWarehouse := open(ctx, dir+"/warehouse")
	defer closeWarehouse()

	orders, links := shop.Queue("orders"), link.New(shop)
	update(ctx, shop, func(tx kv.Tx) error {
		if _, err := links.Set(tx, orders, "warehouse", fmt.Appendf(nil, `{"to":%q}`, warehouse.ID())); err != nil {
			return err
		}
		_, err := orders.Push(tx, fdbpq.NewItem{Payload: []byte("a chair")}, fdbpq.NewItem{Payload: []byte("a table")}, fdbpq.NewItem{Payload: []byte("a lamp")})
		return err
	})

	ask := link.Ask{Taker: warehouse.ID(), Batch: "none-yet", Items: fdbpq.Selection{Limit: 2}}
	for {
		var given link.Given
		update(ctx, shop, func(tx kv.Tx) (err error) {
			given, err = links.Give(tx, orders, "warehouse", ask)
			return err
		})
		if given.Ended > 0 {
			fmt.Println(given.Ended, "arrived")
		}
		if given.Number == 0 {
			break
		}
		update(ctx, warehouse, func(tx kv.Tx) error {
			for _, item := range given.Items {
				fmt.Printf("batch %d: %s\n", given.Number, item.Payload)
				if _, err := warehouse.Queue("incoming").Push(tx, fdbpq.NewItem{Payload: item.Payload}); err != nil {
					return err
				}
			}
			return nil
		})
		ask.Done, ask.Batch = given.Number, given.Batch
	}
	// Output:
	// batch 1: a chair
	// batch 1: a table
	// 2 arrived
	// batch 2: a lamp
	// 1 arrived
}

func open(ctx context.Context, dir string) (*fdbpq.Store, func()) {
	db, err := local.Open(dir, local.Options{NoSync: true})
	if err != nil {
		log.Fatal(err)
	}
	store, err := fdbpq.Open(ctx, db, fdbpq.Options{Exclusive: true})
	if err != nil {
		log.Fatal(err)
	}
	return store, func() {
		if err := db.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

func update(ctx context.Context, store *fdbpq.Store, fn func(kv.Tx) error) {
	session := store.Session()
	defer session.Release()
	if err := session.Update(ctx, fn); err != nil {
		log.Fatal(err)
	}
}
