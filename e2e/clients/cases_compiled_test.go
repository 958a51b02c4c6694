package clients_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/cases"
	"github.com/pqbridge/pqbridge/testenv"
)

// Drivers in languages that make test-clients compiles, and nothing else does.

func TestCasesInJava(t *testing.T) {
	t.Parallel()
	needDriver(t, "java", "Driver.class")
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skip("NOT TESTED WITH JNATS: there is no java")
	}
	target := absolute(t, "../testdata/java/target")
	runCases(t, "java", func(t *testing.T, p *testenv.Process) cases.Driver {
		return startDriver(t, p.Command(t, java, "-cp", target+string(filepath.ListSeparator)+filepath.Join(target, "dependency", "*"), "Driver", p.URL))
	})
}

func TestCasesInRust(t *testing.T) {
	t.Parallel()
	program := needDriver(t, "rust", "debug/driver")
	runCases(t, "rust", func(t *testing.T, p *testenv.Process) cases.Driver {
		return startDriver(t, p.Command(t, program, p.URL))
	})
}

func TestCasesInC(t *testing.T) {
	t.Parallel()
	program := needDriver(t, "c", "driver")
	runCases(t, "c", func(t *testing.T, p *testenv.Process) cases.Driver {
		return startDriver(t, p.Command(t, program, p.URL))
	})
}

// needDriver skips the test where a driver is not compiled.
func needDriver(t *testing.T, language, file string) string {
	t.Helper()
	path := absolute(t, filepath.Join("../testdata", language, "target", file))
	if _, err := os.Stat(path); err != nil {
		t.Skipf("NOT TESTED: THE CLIENT IN %s: make test-clients compiles its driver", language)
	}
	return path
}
