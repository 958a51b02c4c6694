package local

import (
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func TestOverwritingKeepsTransactionsSmall(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{NoSync: true})
	value := make([]byte, kv.MaxValueSize)
	mustUpdate(t, db, func(tx kv.Tx) error {
		for i := range 1000 {
			tx.Set([]byte("a"), value[:kv.MaxValueSize-1000+i])
			tx.Set([]byte("b"), []byte("short"))
		}
		if n := cap(asTx(tx).buf.writes.values); n > 4*maxKept {
			t.Errorf("two rows take %d bytes", n)
		}
		return nil
	})
	if got := len(mustGet(t, db, "a")); got != kv.MaxValueSize-1 {
		t.Errorf("the value has %d bytes", got)
	}
}

// A transaction copies its values as often as their memory doubles.
func TestArenasDouble(t *testing.T) {
	t.Parallel()
	value := make([]byte, 1000)
	var arena []byte
	moved := 0
	for range 1000 {
		before := cap(arena)
		if arena = extend(arena, value...); cap(arena) > before {
			moved++
		}
	}
	if len(arena) != 1_000_000 || moved > 11 {
		t.Errorf("%d bytes, which moved %d times: expected a million, and 11 times at most", len(arena), moved)
	}
}
