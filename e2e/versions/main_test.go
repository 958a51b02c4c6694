// Package versions_test runs the program of an earlier commit and this one on one store, in turns and side by side,
// beside kills, stops and clients, and judges what the clients saw. docs/compatibility.md says what holds between
// versions; e2e/compatibility holds this program to stores and answers that earlier ones left.
package versions_test

import (
	"flag"
	"os"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

var (
	flagOld      = flag.String("pq.old", "", "commit of the earlier program; empty: none of these tests run")
	flagVersions = flag.Duration("pq.versions", 0, "how long programs of two versions take turns; 0: one round")
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }
