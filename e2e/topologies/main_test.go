// Package topologies_test has pqd and its clients in the topologies of docs/topologies.md, with the files that the
// page shows. Each is cut and joined again.
package topologies_test

import (
	"os"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
