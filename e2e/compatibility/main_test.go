// Package compatibility_test holds this program to what earlier releases promised, as
// docs/compatibility.md says: their stores are served, and what their Go packages exported is there.
// TestCasesOfReleases, in e2e/clients, has the protocol's part.
package compatibility_test

import (
	"os"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
