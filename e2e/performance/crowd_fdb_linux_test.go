//go:build fdb

package performance_test

import (
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/internal/fdbtest"
)

func init() {
	crowdStores["fdb"] = func(t testing.TB) []string {
		return []string{fmt.Sprintf("PQ_STORE=fdb:%s?prefix=%s", fdbtest.Shared(t).File, fdbtest.Prefix())}
	}
}
