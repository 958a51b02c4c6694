package fault

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// TestLateCommits has a transaction committed late, after others.
func TestLateCommits(t *testing.T) {
	t.Parallel()
	move := func(tx kv.Tx) error { // depends on a, writes b
		value, err := tx.Get([]byte("a"))
		tx.Set([]byte("b"), value)
		return err
	}
	tests := []struct {
		name      string
		late      func(kv.Tx) error
		meanwhile []func(kv.Tx) error
		done      int
		rows      string
	}{
		{"alone", move, nil, 1, "a=1 b=1"},
		{"others elsewhere", move, []func(kv.Tx) error{set("c", "2"), set("d", "3")}, 1, "a=1 b=1 c=2 d=3"},
		{"what it read changed", move, []func(kv.Tx) error{set("a", "2")}, 0, "a=2"},
		{"what it read changed and came back", move, []func(kv.Tx) error{set("a", "2"), set("a", "1")}, 0, "a=1"},
		{"what it wrote was written", move, []func(kv.Tx) error{set("b", "2")}, 1, "a=1 b=1"},
		{"blind", set("a", "late"), []func(kv.Tx) error{set("a", "2")}, 1, "a=late"},
		{"its conflict key was written", func(tx kv.Tx) error {
			if _, err := tx.Snapshot().Get([]byte("a")); err != nil {
				return err
			}
			tx.Conflict([]byte("void"))
			return set("b", "late")(tx)
		}, []func(kv.Tx) error{set("void", "x")}, 0, "a=1 void=x"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			db := open(t, Options{})
			mustUpdate(t, db, set("a", "1"))
			db.FailNext(UnknownLate)
			returned, ranLater := false, false
			ctx, cancel := context.WithCancel(t.Context())
			err := db.Update(ctx, func(tx kv.Tx) error {
				ranLater = ranLater || returned
				return test.late(tx)
			})
			expectError(t, err, kv.ErrUnknown)
			returned = true
			cancel()
			for _, fn := range test.meanwhile {
				mustUpdate(t, db, fn)
			}
			if n := db.Late(); n != 1 {
				t.Errorf("%d commits are late, expected 1 until Release", n)
			}
			if done := db.Release(); done != test.done {
				t.Errorf("Release made %d late commits, expected %d", done, test.done)
			}
			expectRows(t, db, test.rows)
			if ranLater {
				t.Error("the closure ran after Update had returned")
			}
			if stats := db.Stats(); stats.LateDone != test.done || stats.LateFailed != 1-test.done {
				t.Errorf("stats are %+v", stats)
			}
		})
	}
}

func TestLateCommitsInOrder(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	db.FailNext(UnknownLate, UnknownLate, UnknownLate, UnknownLate)
	for _, value := range []string{"1", "2", "3"} {
		expectError(t, db.Update(t.Context(), set("a", value)), kv.ErrUnknown)
	}
	expectError(t, db.Update(t.Context(), increment("n")), kv.ErrUnknown)
	mustUpdate(t, db, increment("n"))
	if done := db.Release(); done != 3 {
		t.Errorf("Release made %d late commits, expected all but the one in conflict", done)
	}
	expectRows(t, db, "a=3 n="+string(kv.EncodeInteger(1)))

	db.FailNext(UnknownLate)
	expectError(t, db.Update(t.Context(), set("a", "4")), kv.ErrUnknown)
	db.Drop()
	if done := db.Release(); done != 0 {
		t.Errorf("Release made %d commits after Drop", done)
	}
	if stats := db.Stats(); stats.LateDropped != 1 || stats.LateDone != 3 || stats.LateFailed != 1 {
		t.Errorf("stats are %+v", stats)
	}
	expectRows(t, db, "a=3 n="+string(kv.EncodeInteger(1)))
}

// TestLateCommitTooOld: the engine refuses what has been on its way for longer
// than a transaction may take.
func TestLateCommitTooOld(t *testing.T) {
	t.Parallel()
	var c clock
	db := wrap(t, openBase(t, local.Options{Now: c.now}), Options{})
	db.FailNext(UnknownLate)
	expectError(t, db.Update(t.Context(), increment("n")), kv.ErrUnknown)
	c.advance(kv.MaxTxAge + time.Second)
	if done := db.Release(); done != 0 {
		t.Error("a commit took effect after the age limit of transactions")
	}
	expectRows(t, db, "")
}

// TestCloseSettlesLateCommits: some take effect, some do not, none is left
// behind.
func TestCloseSettlesLateCommits(t *testing.T) {
	t.Parallel()
	base := openBase(t, local.Options{})
	total := Stats{}
	for seed := range uint64(10) {
		db := wrap(t, base, Options{Seed: seed})
		db.FailNext(UnknownLate)
		expectError(t, db.Update(t.Context(), set(fmt.Sprint(seed), "")), kv.ErrUnknown)
		db.Crash() // so that the store below stays open
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		total.LateDone += db.Stats().LateDone
		total.LateDropped += db.Stats().LateDropped
	}
	if total.LateDone == 0 || total.LateDropped == 0 || total.LateDone+total.LateDropped != 10 {
		t.Errorf("stats are %+v, expected some commits and some not", total)
	}
	if got := len(strings.Fields(rows(t, base))); got != total.LateDone {
		t.Errorf("%d rows are there, expected %d", got, total.LateDone)
	}
	db := wrap(t, base, Options{})
	db.FailNext(UnknownLate, UnknownLate)
	expectError(t, db.Update(t.Context(), set("x", "")), kv.ErrUnknown)
	expectError(t, db.Update(t.Context(), set("y", "")), kv.ErrUnknown)
	if err := db.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	expectError(t, base.Close(), kv.ErrClosed)
}
