//go:build fdb

package testenv

import (
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
)

const buildTags = "fdb"

func taggedEngines() []Engine { return []Engine{fdbEngine} }

var fdbEngine = Engine{
	Name: "fdb",
	Place: func(t testing.TB) func() (kv.DB, error) {
		cluster, prefix := fdbtest.Shared(t), fdbtest.Prefix()
		return func() (kv.DB, error) { return openFDB(cluster.File, prefix) }
	},
}

// openFDB exists because a nil *fdb.DB in a kv.DB is not nil.
func openFDB(clusterFile string, prefix []byte) (kv.DB, error) {
	db, err := fdb.Open(clusterFile, fdb.Options{Prefix: prefix, OpenTimeout: Patience()})
	if err != nil {
		return nil, err
	}
	return db, nil
}
