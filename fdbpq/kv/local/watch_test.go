package local

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// A watch of a key that nobody writes may last for days. It keeps no commit: a commit leads to all later ones.
func TestWatchKeepsNoCommit(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{})
	mustUpdate(t, db, set("a", "0"))
	var w *kv.Watch
	mustUpdate(t, db, func(tx kv.Tx) error {
		if _, err := tx.Get([]byte("idle")); err != nil {
			return err
		}
		w = tx.Watch([]byte("idle"))
		return nil
	})
	began := weak.Make(db.applied.Load())
	for i := range 100 { // more than the buffers that transactions use again
		mustUpdate(t, db, set("a", fmt.Sprint(i)))
	}
	runtime.GC()
	runtime.GC()
	if began.Value() != nil {
		t.Error("the commit at which the watch began is kept, and all later ones")
	}
	select {
	case <-w.Done():
		t.Error("the watch has ended, and nobody wrote its key")
	default:
	}
	mustUpdate(t, db, set("idle", "1"))
	<-w.Done()
	w.Cancel()
}
