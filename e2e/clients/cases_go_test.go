package clients_test

import (
	"path/filepath"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/cases"
	"github.com/pqbridge/pqbridge/testenv"
)

func TestCasesInGo(t *testing.T) {
	t.Parallel()
	runCases(t, "go", startGo)
}

// What any client of NATS could do with an earlier release it can do with this program: each release
// leaves its table of cases behind.
func TestCasesOfReleases(t *testing.T) {
	t.Parallel()
	files := matching(t, "../testdata/releases/*/cases.json")
	if len(files) == 0 {
		t.Fatal("there are no releases")
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			t.Parallel()
			runCasesOf(t, file, "go", startGo)
		})
	}
}

func startGo(t *testing.T, p *testenv.Process) cases.Driver { return &cases.Go{NC: p.Connect(t)} }
