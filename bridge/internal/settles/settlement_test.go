package settles

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// A full store serves each settlement but an extension, also the return of an item that nobody received. A settlement that was refused
// counts as nothing.
func TestWhatSettlementsDo(t *testing.T) {
	t.Parallel()
	for kind, want := range map[codec.SettleKind]struct {
		ends, makesRoom bool
		counts          request.Tally
	}{
		codec.SettleAck:      {true, true, request.Tally{request.Acknowledged: 1}},
		codec.SettleNext:     {true, true, request.Tally{request.Acknowledged: 1}},
		codec.SettleNack:     {true, true, request.Tally{request.Returned: 1, request.Nacked: 1}},
		codec.SettleBack:     {true, true, request.Tally{request.Returned: 1, request.GivenBack: 1}},
		codec.SettleTerm:     {true, true, request.Tally{request.Terminated: 1}},
		codec.SettleReturn:   {false, true, request.Tally{request.Returned: 1, request.Unreceived: 1}},
		codec.SettleProgress: {false, false, request.Tally{}},
	} {
		s := &Settlement{Settlement: codec.Settlement{Kind: kind}}
		var counts request.Tally
		s.Tally(&counts)
		if s.EndsLease() != want.ends || s.MakesRoom(true) != want.makesRoom || counts != want.counts {
			t.Errorf("kind %d ends its lease: %t, makes room: %t, counts %v", kind, s.EndsLease(), s.MakesRoom(true), counts)
		}
		s.Failure, counts = &failure.Failure{Code: 410}, request.Tally{}
		s.Tally(&counts)
		if s.EndsLease() || counts != (request.Tally{}) {
			t.Errorf("kind %d ends its lease although it was refused: %t, and counts %v", kind, s.EndsLease(), counts)
		}
	}
}

// A transaction may run again, in another state of the store: a settlement that was refused before may take effect now.
func TestSettlementForgetsTheRunBefore(t *testing.T) {
	t.Parallel()
	db, err := local.Open(t.TempDir(), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	queue := store.Queue("jobs")
	s := &Settlement{Settlement: codec.Settlement{Kind: codec.SettleAck}}
	update := func(fn func(kv.Tx) error) {
		t.Helper()
		if err := db.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	update(func(tx kv.Tx) error {
		_, err := queue.Push(tx, fdbpq.NewItem{})
		return err
	})
	update(func(tx kv.Tx) error {
		taken, err := queue.Lease(tx, fdbpq.Selection{Limit: 1}, time.Hour)
		if err == nil {
			s.Lease = *taken.Items[0].Lease
		}
		return err
	})
	s.Failure = &failure.Failure{Code: 429, Text: "the store was full"}
	update(func(tx kv.Tx) error {
		_, err := s.Apply(&desk.ChangeTx{Tx: tx, Queue: queue})
		return err
	})
	if s.Failure != nil || !s.EndsLease() {
		t.Errorf("the settlement that took effect is refused for %v", s.Failure)
	}
}
