package bridge

import (
	"errors"
	"fmt"
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
		l := lane{keeper: newKeeper(slog.New(slog.DiscardHandler)), pace: Options{}.withDefaults().pace}
		expect := func(want time.Duration) {
			t.Helper()
			ctx, cancel := l.timeout()
			defer cancel()
			if end, bounded := ctx.Deadline(); !bounded || time.Until(end) != want {
				t.Errorf("a transaction may take %s, expected %s", time.Until(end), want)
			}
		}
		expect(4 * time.Second)
		l.keeper.failed(kv.ErrUnavailable)
		expect(time.Second)
		l.keeper.alive()
		expect(4 * time.Second)
	})
}

// A lane is busy during its transactions, and not after them, whether they succeed or not.
func TestLaneIsBusyDuringTransactions(t *testing.T) {
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
	l := lane{
		pace: Options{}.withDefaults().pace,
		Wire: wire, store: store, keeper: newKeeper(slog.New(slog.DiscardHandler)),
		setBusy: func(now bool) { busy = now },
	}
	l.shared = newShared(&l, true)
	for _, want := range []error{nil, fdbpq.ErrNoQueue} {
		err := l.update(batch.Job[kv.Tx]{Do: func(kv.Tx) error {
			if !busy {
				t.Error("the lane is not busy during its transaction")
			}
			return want
		}})
		if !errors.Is(err, want) || busy {
			t.Errorf("busy after the transaction: %t, %v", busy, err)
		}
	}
}

// A wait is answered a little before its time is up.
func TestWaitEndsInTime(t *testing.T) {
	t.Parallel()
	came := time.Unix(1, 0)
	for wait, want := range map[time.Duration]time.Duration{
		time.Hour:              time.Hour - 10*time.Millisecond,
		100 * time.Millisecond: 90 * time.Millisecond,
		50 * time.Millisecond:  45 * time.Millisecond,
		1:                      1,
	} {
		if got := waitEnds(came, wait, false).Sub(came); got != want {
			t.Errorf("a wait of %s ends after %s, expected %s", wait, got, want)
		}
	}
	// A repetition has a transaction to do in the end.
	if got := waitEnds(came, time.Hour, true).Sub(came); got != time.Hour-100*time.Millisecond {
		t.Errorf("the wait of a repetition ends after %s", got)
	}
}

// All pushes to a queue that nobody has made are refused for the same reason, so none
// of them is tried alone.
func TestErrorsOfAllPushes(t *testing.T) {
	t.Parallel()
	l := pushes{lane: &lane{}}
	for err, want := range map[error]bool{
		kv.ErrUnavailable: true, fdbpq.ErrNoQueue: true, fmt.Errorf("push: %w", fdbpq.ErrNoQueue): true, kv.ErrTooLarge: false, fdbpq.ErrContent: false,
	} {
		if got := l.Common(err); got != want {
			t.Errorf("%v concerns all pushes: %t", err, got)
		}
	}
}
