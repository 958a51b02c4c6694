package clients_test

import (
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/cases"
	"github.com/pqbridge/pqbridge/testenv"
)

func TestCasesInGo(t *testing.T) {
	t.Parallel()
	runCases(t, "go", startGo)
}

func startGo(t *testing.T, p *testenv.Process) cases.Driver { return &cases.Go{NC: p.Connect(t)} }
