//go:build fdb

package fdbpq_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
)

func init() {
	engines = append(engines, engine{"fdb", func(t testing.TB) func() (kv.DB, error) {
		cluster, prefix := fdbtest.Shared(t), fdbtest.Prefix()
		return func() (kv.DB, error) {
			return fdb.Open(cluster.File, fdb.Options{Prefix: prefix, OpenTimeout: time.Minute})
		}
	}})
}
