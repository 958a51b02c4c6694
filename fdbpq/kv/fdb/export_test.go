//go:build fdb

package fdb

import "github.com/pqbridge/pqbridge/fdbpq/kv"

// Committing reports whether a transaction's commit is under way.
func Committing(t kv.Tx) bool {
	r := t.(*tx).run
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.committing
}

// LimitWatches lets a store's connection hold n watches, until the function it
// returns is called.
func LimitWatches(db *DB, n int64) (restore func() error, err error) {
	options := db.connection.database.Options()
	return func() error { return options.SetMaxWatches(maxWatches) }, options.SetMaxWatches(n)
}

// ReadVersion is the version that a transaction would read that began now.
func ReadVersion(db *DB) (int64, error) {
	tr, err := db.connection.database.CreateTransaction()
	if err != nil {
		return 0, err
	}
	return tr.GetReadVersion().Get()
}
