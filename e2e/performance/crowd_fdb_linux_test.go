//go:build fdb

package performance_test

import (
	"testing"

	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
)

func init() {
	crowdStores["fdb"] = func(t testing.TB) []string {
		return []string{fdbtest.Shared(t).Setting()}
	}
}
