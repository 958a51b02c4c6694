package clients_test

import (
	"path/filepath"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/cases"
	"github.com/pqbridge/pqbridge/e2e/internal/nodejs"
	"github.com/pqbridge/pqbridge/testenv"
)

func TestCasesInJavaScript(t *testing.T) {
	t.Parallel()
	node := nodejs.Need(t)
	runCases(t, "js", func(t *testing.T, p *testenv.Process) cases.Driver {
		return startDriver(t, p.Command(t, node.Path, absolute(t, filepath.Join(nodejs.Scripts, "driver.mjs")), p.URL))
	})
}

func TestCasesInPython(t *testing.T) {
	t.Parallel()
	py := needPython(t)
	runCases(t, "python", func(t *testing.T, p *testenv.Process) cases.Driver {
		return startDriver(t, p.Command(t, py.path, absolute(t, "../testdata/python/driver.py"), p.URL))
	})
}

// absolute is a file's path for programs that run elsewhere.
func absolute(t *testing.T, file string) string {
	t.Helper()
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
