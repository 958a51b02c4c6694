//go:build fdb && benchfdb

package performance_test

import (
	crand "crypto/rand"
	"math/rand/v2"
	"testing"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"
	appletuple "github.com/apple/foundationdb/bindings/go/src/fdb/tuple"
)

// The kinds of work of FoundationDB itself: transactions of one call by apple's bindings.
const (
	setKind     = "bare sets"
	getKind     = "bare gets"
	versionKind = "read versions"
)

func init() {
	kinds[setKind] = bareSets
	kinds[getKind] = bareGets
	kinds[versionKind] = readVersions
}

// bareSets is a bound for queues without batches: one row a transaction, and nothing
// read.
func bareSets(t *testing.T, l task) work {
	db, items := openRecipe(t, l.Cluster, l.Prefix)
	return work{client: func() func() error {
		return func() error {
			random := make([]byte, 20)
			crand.Read(random)
			key, value := items.Pack(appletuple.Tuple{5, 0, random}), payload()
			_, err := db.Transact(func(tr apple.Transaction) (any, error) {
				tr.Set(key, value)
				return nil, nil
			})
			return err
		}
	}}
}

// bareRows are those that bare gets find.
const bareRows = 10_000

// bareGets read a row that is there, any of many.
func bareGets(t *testing.T, l task) work {
	db, rows := openRecipe(t, l.Cluster, l.Prefix)
	key := func(i int) apple.Key { return rows.Pack(appletuple.Tuple{i}) }
	_, err := db.Transact(func(tr apple.Transaction) (any, error) {
		for i := range bareRows {
			tr.Set(key(i), payload())
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return work{client: func() func() error {
		return func() error {
			_, err := db.ReadTransact(func(tr apple.ReadTransaction) (any, error) {
				value, err := tr.Get(key(rand.IntN(bareRows))).Get()
				if err == nil && value == nil {
					err = errEmpty
				}
				return nil, err
			})
			return err
		}
	}}
}

// readVersions ask for the version to read at, and nothing else. The client library asks
// for those of many transactions at once.
func readVersions(t *testing.T, l task) work {
	db, _ := openRecipe(t, l.Cluster, l.Prefix)
	return work{client: func() func() error {
		return func() error {
			_, err := db.ReadTransact(func(tr apple.ReadTransaction) (any, error) { return tr.GetReadVersion().Get() })
			return err
		}
	}}
}
