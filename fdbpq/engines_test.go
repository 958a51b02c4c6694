package fdbpq_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// engines are those that a test runs on. The function that place returns opens
// one and the same store, which is empty at first.
var engines = []engine{{"local", placeLocal}}

type engine struct {
	name  string
	place func(testing.TB) func() (kv.DB, error)
}

// placeLocal does without syncs, and its transactions do not grow old on a busy
// machine: both are the engine's business, and tested there.
func placeLocal(t testing.TB) func() (kv.DB, error) {
	dir := filepath.Join(t.TempDir(), "data")
	return func() (kv.DB, error) { return local.Open(dir, local.Options{NoSync: true, Now: stopped}) }
}

func stopped() time.Time {
	return time.Time{}
}

// fewer reduces the amount of work of a test on engines whose commits cross a network.
func fewer(t testing.TB, n int) int {
	if strings.HasSuffix(t.Name(), "/local") {
		return n
	}
	return n / 10
}

// eachEngine runs a test on every engine. A test that opens the store again closes it
// before.
func eachEngine(t *testing.T, test func(t *testing.T, open func() kv.DB)) {
	for _, engine := range engines {
		t.Run(engine.name, func(t *testing.T) {
			place := engine.place(t)
			test(t, func() kv.DB {
				db, err := place()
				if err != nil {
					t.Fatal(err)
				}
				return db
			})
		})
	}
}
