package local

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func TestTransactionsAge(t *testing.T) {
	t.Parallel()
	var clock atomic.Int64
	db := openMem(t, Options{Now: func() time.Time { return time.Unix(0, clock.Load()) }})
	sleep := func(d time.Duration) { clock.Add(int64(d)) }
	mustUpdate(t, db, set("a", "1"))
	read := func(r kv.Reader) error { _, err := r.Get([]byte("a")); return err }
	ctx := context.Background()
	for _, c := range []struct {
		name string
		run  func(runs *int) error
		runs int
	}{
		{"View, in time", func(runs *int) error {
			return db.View(ctx, func(r kv.Reader) error {
				*runs++
				if err := read(r); err != nil {
					return err
				}
				sleep(kv.MaxTxAge)
				return read(r)
			})
		}, 1},
		{"View, a late read", func(runs *int) error {
			return db.View(ctx, func(r kv.Reader) error {
				if err := read(r); err != nil {
					return err
				}
				if *runs++; *runs == 1 {
					sleep(kv.MaxTxAge + 1)
				}
				return read(r)
			})
		}, 2},
		{"Update, a late first read", func(runs *int) error {
			return db.Update(ctx, func(tx kv.Tx) error {
				*runs++
				tx.Set([]byte("b"), nil)
				sleep(time.Hour)
				return read(tx)
			})
		}, 1},
		{"Update, a late commit", func(runs *int) error {
			return db.Update(ctx, func(tx kv.Tx) error {
				tx.Set([]byte("b"), nil)
				err := read(tx)
				if *runs++; *runs == 1 {
					sleep(kv.MaxTxAge + 1)
				}
				return err
			})
		}, 2},
		{"Update, an error of its own because of a late read", func(runs *int) error {
			return db.Update(ctx, func(tx kv.Tx) error {
				if err := read(tx); err != nil {
					return err
				}
				if *runs++; *runs == 1 {
					sleep(kv.MaxTxAge + 1)
				}
				if read(tx) != nil {
					return errors.New("own")
				}
				return nil
			})
		}, 2},
	} {
		runs := 0
		if err := c.run(&runs); err != nil || runs != c.runs {
			t.Errorf("%s: %d runs, want %d; error %v", c.name, runs, c.runs, err)
		}
	}
}
