package pops

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/protocol"
)

// The pops of a queue leave the other queues of a transaction the room that their items do not need, and take no more than there is.
func TestPopsTakeRoom(t *testing.T) {
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
	w, err := codec.New("pq", nil, func() int64 { return protocol.MaxPayload })
	if err != nil {
		t.Fatal(err)
	}
	w.Limit.Refresh()
	update := func(fn func(kv.Tx) error) {
		t.Helper()
		if err := db.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	update(func(tx kv.Tx) error {
		_, err := store.Queue("jobs").Push(tx, slices.Repeat([]fdbpq.NewItem{{Payload: []byte("a job")}}, 5)...)
		return err
	})
	at := transaction{Desk: &desk.Desk{Wire: w, Store: store, Reserve: func() error { return nil }}}
	at.Begin("jobs")
	for range 3 {
		r := new(pop)
		r.Msg = &nats.Msg{Header: nats.Header{protocol.HeaderLease: {"1h"}}}
		if f := r.Read(nil); f != nil {
			t.Fatal(f)
		}
		at.todo = append(at.todo, r)
	}
	for _, tc := range []struct {
		room   int // items
		served int
		more   bool
	}{{10, 3, false}, {2, 2, true}} {
		left := turns.Limits{Requests: tc.room, Bytes: 1 << 20}
		update(func(tx kv.Tx) error {
			left = turns.Limits{Requests: tc.room, Bytes: 1 << 20}
			_, err := at.Do(tx, &left)
			return err
		})
		var bytes int64
		for _, r := range at.todo[:at.served] {
			bytes += r.found[0].Size
		}
		if at.served != tc.served || at.more != tc.more || left.Requests != tc.room-tc.served || bytes == 0 || left.Bytes != 1<<20-int(bytes) {
			t.Errorf("with room for %d items %d pops of 3 are served, with %d bytes, more: %t; %+v is left", tc.room, at.served, bytes, at.more, left)
		}
	}
}
