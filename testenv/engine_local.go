package testenv

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

var localEngine = Engine{
	Name:      "local",
	Exclusive: true,
	Place: func(t testing.TB) func() (kv.DB, error) {
		dir := filepath.Join(t.TempDir(), "data")
		return func() (kv.DB, error) { return openLocal(dir) }
	},
}

// openLocal exists because a nil *local.DB in a kv.DB is not nil. Its clock stands still,
// because a busy machine could otherwise make transactions too old.
func openLocal(dir string) (kv.DB, error) {
	db, err := local.Open(dir, local.Options{Now: func() time.Time { return time.Time{} }})
	if err != nil {
		return nil, err
	}
	return db, nil
}
