package fdbpq_test

import (
	"path/filepath"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// eachEngine runs a test on every engine. open opens one and the same store,
// which is empty at first; whoever opens it again closes it before.
func eachEngine(t *testing.T, test func(t *testing.T, open func() kv.DB)) {
	t.Run("local", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		test(t, func() kv.DB {
			db, err := local.Open(dir, local.Options{NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			return db
		})
	})
}
