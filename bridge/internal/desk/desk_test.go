package desk

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// While the store is known to fail, requests wait for a shorter time: clients that wait
// 5 s hear in time.
func TestTransactionTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := Desk{Keeper: NewKeeper(slog.New(slog.DiscardHandler)), Pace: batch.Patience{First: TxTimeout, Then: TxTimeoutDown}}
		expect := func(want time.Duration) {
			t.Helper()
			ctx, cancel := l.timeout()
			defer cancel()
			if end, bounded := ctx.Deadline(); !bounded || time.Until(end) != want {
				t.Errorf("a transaction may take %s, expected %s", time.Until(end), want)
			}
		}
		expect(4 * time.Second)
		l.Keeper.outage(kv.ErrUnavailable)
		expect(time.Second)
		l.Keeper.alive()
		expect(4 * time.Second)
	})
}

// A desk is busy during its transactions, and not after them, whether they succeed or not.
func TestDeskIsBusyDuringTransactions(t *testing.T) {
	t.Parallel()
	db, err := local.Open("store", local.Options{FS: vfs.NewMem(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	busy := false
	wire, err := codec.New("pq", nil, new(nats.Conn).MaxPayload)
	if err != nil {
		t.Fatal(err)
	}
	l := Desk{
		Pace: batch.Patience{First: TxTimeout, Then: TxTimeoutDown},
		Wire: wire, Store: store, Keeper: NewKeeper(slog.New(slog.DiscardHandler)),
		setBusy: func(now bool) { busy = now },
	}
	for _, want := range []error{nil, fdbpq.ErrNoQueue} {
		err := l.Update(func(kv.Tx) error {
			if !busy {
				t.Error("the desk is not busy during its transaction")
			}
			return want
		})
		if !errors.Is(err, want) || busy {
			t.Errorf("busy after the transaction: %t, %v", busy, err)
		}
	}
}
