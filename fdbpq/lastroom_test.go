package fdbpq_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// While hardly any room is left, sweeps expire items and forget ids and results. Leases, delays and deaths wait, and all is done as
// soon as there is more room.
func TestSweepsThatFreeRoom(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		var why error
		options := f.clock.options(0)
		options.Last = func() error { return why }
		options.Full = func(int64) error { return why }
		f.join(options)
		f.configure("q", `{"dedup_window":"1m"}`)
		f.push("q", fdbpq.NewItem{Payload: []byte("leased")})
		f.leaseOne("q", time.Minute)
		f.push("q", fdbpq.NewItem{Payload: []byte("ended"), ResultTTL: time.Minute})
		if err := f.ack(*f.leaseOne("q", time.Minute).Lease); err != nil {
			t.Fatal(err)
		}
		f.push("q", fdbpq.NewItem{Payload: []byte("dies")})
		dies := f.leaseOne("q", time.Hour)
		f.push("q", fdbpq.NewItem{Payload: []byte("expires"), TTL: time.Minute, MsgID: "a"})
		f.push("q", fdbpq.NewItem{Payload: []byte("delayed"), Delay: time.Minute})
		why = errors.New("no room")
		if err := f.terminate(*dies.Lease); err != nil {
			t.Fatal(err)
		}
		ids := len(f.rows("u"))
		for range 3 {
			f.pass(time.Minute)
			for _, event := range f.sweep() {
				if event.Type != fdbpq.EventExpired {
					t.Errorf("without room there is the event %+v", event)
				}
			}
			if n := f.counts("q"); n.Ready != 0 || n.Leased != 2 || n.Delayed != 1 {
				t.Errorf("without room there are %+v", n)
			}
		}
		if swept, err := f.Sweep(t.Context()); err != nil || swept.Next <= 0 || swept.Next > time.Second || swept.Timers != 0 {
			t.Errorf("without room: %+v, %v; expected the next sweep within a second", swept, err)
		}
		if now := len(f.rows("u")); ids == 0 || now != 0 {
			t.Errorf("%d rows of ids are left of %d", now, ids)
		}
		why = nil
		f.sweep()
		if n, dead := f.counts("q"), f.counts("q-dead"); n.Ready != 2 || n.Leased+n.Delayed != 0 || dead.Ready != 1 {
			t.Errorf("with room there are %+v, and %+v dead letters", n, dead)
		}
	})
}
