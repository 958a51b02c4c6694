package schedule_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
)

// A program that keeps queues in a store of its own runs Maintain. If they have schedules, it runs those, too: without
// that, Maintain reports that schedules wait.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "schedule")
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
	schedules := schedule.New(store)
	session := store.Session()
	defer session.Release()

	fired := make(chan struct{}, 1)
	var running sync.WaitGroup
	running.Go(func() { store.Maintain(ctx, fdbpq.Maintenance{Problem: func(err error) { log.Print(err) }}) })
	running.Go(func() {
		schedules.Run(ctx, schedule.Runner{
			Problem: func(err error) { log.Print(err) },
			Fired: func(f schedule.Fired) {
				if f.Queues["reports"].Fired > 0 {
					select {
					case fired <- struct{}{}:
					default:
					}
				}
			},
		})
	})
	defer running.Wait()
	defer stop()

	reports := store.Queue("reports")
	err = session.Update(ctx, func(tx kv.Tx) error {
		_, err := schedules.Set(tx, reports, "totals", []byte(`{"spec":"@every 1s"}`), &schedule.Item{Payload: []byte("count the orders")})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	<-fired
	err = session.Update(ctx, func(tx kv.Tx) error {
		popped, err := reports.Pop(tx, fdbpq.Selection{Limit: 1})
		if err != nil {
			return err
		}
		for _, item := range popped.Items {
			fmt.Println(string(item.Payload))
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// count the orders
}
