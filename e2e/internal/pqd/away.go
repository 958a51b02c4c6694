package pqd

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/tuple"
	"github.com/pqbridge/pqbridge/testenv"
)

// Away stops a pqd on an embedded store, and starts it as if it had been stopped that long ago.
func Away(t *testing.T, p *testenv.Process, ago time.Duration) {
	t.Helper()
	p.Stop(t)
	db, err := local.Open(p.Dir, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	StoppedAgo(t, db, ago)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	p.Start(t)
}

// StoppedAgo changes a store as if its last pqd had stopped that long ago.
func StoppedAgo(t *testing.T, db kv.DB, ago time.Duration) {
	t.Helper()
	err := db.Update(t.Context(), func(tx kv.Tx) error {
		wall := time.Now().Add(-ago).UnixNano()
		tx.Set(tuple.AppendString(nil, "w"), kv.EncodeInteger(uint64(wall)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
