package kvtest

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Transactions that grow old, on engines whose clock can be moved.
var ageCases = []testCase{
	{name: "OldTransaction", run: testOldTransaction, needsAdvance: true},
	{name: "OldTransactionReads", run: testOldTransactionReads, needsAdvance: true},
	{name: "OldView", run: testOldView, needsAdvance: true},
	{name: "NotYetOld", run: testNotYetOld, needsAdvance: true, countsRuns: true},
}

const (
	tooLong    = kv.MaxTxAge + time.Second
	longEnough = kv.MaxTxAge - time.Second
)

// testOldTransaction: a transaction cannot commit on data that it read too long ago.
func testOldTransaction(f *fixture) {
	f.start(set("a", "1"))
	runs := 0
	f.update(func(tx kv.Tx) error {
		if _, err := tx.Get([]byte("a")); err != nil {
			return err
		}
		if runs++; runs == 1 {
			f.advance(tooLong)
		}
		tx.Set([]byte("b"), fmt.Append(nil, runs))
		return nil
	})
	if runs < 2 {
		f.Error("a transaction was committed although it was too old")
	}
	f.expectRows("a", "1", "b", fmt.Sprint(runs))
}

// testOldTransactionReads: a read that comes too late fails; the closure passes the error on, and runs again.
func testOldTransactionReads(f *fixture) {
	f.start(set("a", "1"))
	reads := map[string]func(r kv.Reader) error{
		"Get":    func(r kv.Reader) error { _, err := r.Get([]byte("a")); return err },
		"GetAll": getAll("ab"),
		"Range": func(r kv.Reader) error {
			_, err := r.Range([]byte("a"), []byte("z"), kv.RangeOptions{Limit: 10})
			return err
		},
	}
	for name, read := range reads {
		for _, snapshot := range []bool{false, true} {
			runs := 0
			f.update(func(tx kv.Tx) error {
				if _, err := tx.Get([]byte("a")); err != nil {
					return err
				}
				if runs++; runs == 1 {
					f.advance(tooLong)
				}
				r := kv.Reader(tx)
				if snapshot {
					r = tx.Snapshot()
				}
				tx.Set([]byte("run"), fmt.Append(nil, runs))
				if err := read(r); err != nil {
					return fmt.Errorf("%s in run %d: %w", name, runs, err)
				}
				return nil
			})
			if runs < 2 {
				f.Errorf("%s: a transaction was committed although it was too old", name)
			}
			f.expectRows("a", "1", "run", fmt.Sprint(runs))
		}
	}
}

// testOldView: a View may go on or be run again, but not fail.
func testOldView(f *fixture) {
	f.start(set("a", "old"))
	runs := 0
	f.view(func(r kv.Reader) error {
		first, err := r.Get([]byte("a"))
		if err != nil {
			return err
		}
		if runs++; runs == 1 {
			if err := f.asideDo(set("a", "new")); err != nil {
				return err
			}
			f.advance(tooLong)
		}
		if err := newModel("a", string(first)).compareAll(r); err != nil {
			return fmt.Errorf("run %d: %w", runs, err)
		}
		return nil
	})
}

func testNotYetOld(f *fixture) {
	f.start(set("a", "1"))
	f.once("a transaction not yet too old", func() int {
		runs := 0
		f.update(func(tx kv.Tx) error {
			runs++
			if err := newModel("a", "1").compareGet(tx, "a"); err != nil {
				return err
			}
			f.advance(longEnough)
			if _, err := tx.Get([]byte("b")); err != nil {
				return err
			}
			tx.Set([]byte("written"), nil)
			return nil
		})
		return runs
	})

	// Before it reads anything, a transaction does not grow old.
	f.once("a transaction that reads late", func() int {
		runs := 0
		f.update(func(tx kv.Tx) error {
			runs++
			tx.Set([]byte("written"), nil)
			f.advance(tooLong)
			_, err := tx.Get([]byte("a"))
			return err
		})
		return runs
	})
}
