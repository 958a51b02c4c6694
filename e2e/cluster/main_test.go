// Package cluster_test runs several pqd that keep one store together: takeover, routes, recovery.
package cluster_test

import (
	"os"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
