package fdbpq_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Whether an item that is delayed between two leases keeps its key waiting was decided when its
// lease ended. What gives it another place or content decides nothing anew.
func TestDelayedItemKeepsItsWord(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f *fixture, id fdbpq.ID){
		"move": func(f *fixture, id fdbpq.ID) {
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue("q").Move(tx, id, -5)
				return err
			})
		},
		"raise": func(f *fixture, _ fdbpq.ID) {
			f.push("q", fdbpq.NewItem{Unique: "u", OnConflict: fdbpq.ConflictRaise, Key: "a", Priority: -5, HasPriority: true})
		},
		"replace": func(f *fixture, _ fdbpq.ID) {
			f.push("q", fdbpq.NewItem{Unique: "u", OnConflict: fdbpq.ConflictReplace, Key: "a", Payload: []byte("other")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				for _, ordered := range []bool{true, false} {
					on, off := `{"key_order":true,"key_limit":0}`, `{"key_order":false,"key_limit":1}`
					if !ordered {
						on, off = off, on
					}
					f.configure("q", on)
					f.push("q", fdbpq.NewItem{Payload: []byte("first"), Key: "a", Unique: "u"})
					f.push("q", fdbpq.NewItem{Payload: []byte("second"), Key: "a"})
					first := f.leaseOne("q", time.Minute)
					if err := f.nack(*first.Lease, time.Hour); err != nil {
						t.Fatal(err)
					}
					f.configure("q", off)
					change(f, first.ID)
					if got := f.get("q", first.ID); got.State != fdbpq.StateDelayed {
						t.Fatalf("the item is %s, expected it to be delayed still", got.State)
					}
					if ordered {
						f.blocked("q")
					} else {
						f.takes("q", 9, "second")
					}
					f.sound()
					f.purge("q")
				}
			})
		})
	}
}

// An item that came back while nothing kept order goes first once something does.
func TestReturnedItemGoesFirstOnceThereIsOrder(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_limit":1}`)
		f.push("q", fdbpq.NewItem{Payload: []byte("returned"), Key: "a", Priority: 9, HasPriority: true})
		if err := f.nack(*f.leaseOne("q", time.Minute).Lease, 0); err != nil {
			t.Fatal(err)
		}
		f.push("q", fdbpq.NewItem{Payload: []byte("urgent"), Key: "a", Priority: 1, HasPriority: true})
		f.configure("q", `{"key_order":true}`)
		f.takes("q", 9, "returned")
		f.sound()
	})
}
