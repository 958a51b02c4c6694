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
