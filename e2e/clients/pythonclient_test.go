package clients_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// The Python client, in clients/python.

const (
	pyClient = "../../clients/python"
	// pyPackages is where .ci/run installs what the tests need, as testdata/python/requirements.txt lists it.
	pyPackages = "../testdata/python/.venv"
)

// python runs programs with the Python client as it is in the repository.
type python struct {
	path   string
	source string   // of the client
	env    []string // so that the interpreter finds it
}

// needPython skips the test where there is no Python, or a package is missing.
func needPython(t *testing.T, modules ...string) python {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(pyPackages, "bin/python"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if path, err = exec.LookPath("python3"); err != nil {
			t.Skip("NOT TESTED: THE PYTHON CLIENT: there is no python3")
		}
	}
	for _, module := range append([]string{"nats"}, modules...) {
		check := "import sys, " + module + "; sys.exit(sys.version_info < (3, 10))"
		if out, err := exec.CommandContext(t.Context(), path, "-c", check).CombinedOutput(); err != nil {
			t.Skipf("NOT TESTED: THE PYTHON CLIENT: expected Python 3.10 or newer with %s, as .ci/run installs it: %v %s", module, err, out)
		}
	}
	source, err := filepath.Abs(pyClient)
	if err != nil {
		t.Fatal(err)
	}
	return python{path: path, source: source, env: []string{"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + source}}
}

// command is a program in Python that has a while to end.
func (py python) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*testenv.Patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, py.path, args...)
	cmd.Env = append(os.Environ(), py.env...)
	return cmd
}

// Each file of tests runs by itself, against a pqd of its own.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	py := needPython(t)
	files := matching(t, filepath.Join(py.source, "tests/test_*.py"))
	if len(files) == 0 {
		t.Fatal("there are no tests")
	}
	for _, file := range files {
		module := strings.TrimSuffix(filepath.Base(file), ".py")
		t.Run(strings.TrimPrefix(module, "test_"), func(t *testing.T) {
			t.Parallel()
			config := filepath.Join(t.TempDir(), "nats.conf")
			pqd.Write(t, config, withRights)
			p := testenv.Daemon(t, "PQ_NATS_CONFIG="+config, "PQ_LISTEN=", "NATS_USER=all", "NATS_PASSWORD=all")
			cmd := py.command(t, "-X", "dev", "-m", "unittest", "-b", module)
			cmd.Dir = filepath.Dir(file)
			cmd.Env = append(cmd.Env, "NATS_URL="+p.URL, fmt.Sprint("PQ_TEST_PATIENCE=", testenv.Patience.Seconds()))
			out, err := cmd.CombinedOutput()
			ran := regexp.MustCompile(`(?m)^Ran [1-9]\d* tests? in .*\n\nOK$`)
			if err != nil || !ran.Match(out) {
				t.Errorf("%v\n%s", err, out)
			}
			p.Stop(t)
		})
	}
}

func TestPythonClientKills(t *testing.T) {
	t.Parallel()
	py := needPython(t)
	for _, role := range []string{"consume", "next", "pop", "threads"} {
		t.Run(role, func(t *testing.T) {
			killWhileProgramsRun(t, role, 1000, 3, func(p *testenv.Process, nats string, args ...string) *clientProgram {
				return startProgram(t, p, nats, py.path, py.env, append([]string{filepath.Join(py.source, "tests/load.py")}, args...)...)
			})
		})
	}
}

// pyPage runs the examples of the client's page as one program.
const pyPage = `import asyncio, sys
servers = sys.argv[1]
%s`

func TestPythonClientPage(t *testing.T) {
	t.Parallel()
	py := needPython(t)
	page, program := filepath.Join(pyClient, "README.md"), filepath.Join(t.TempDir(), "page.py")
	blocks := testenv.Blocks(t, page, "python")
	var examples strings.Builder
	for _, block := range blocks {
		fmt.Fprintf(&examples, "%s\nprint(%q, flush=True)\n", block.Text, separator)
	}
	pqd.Write(t, program, fmt.Sprintf(pyPage, examples.String()))
	p := testenv.Daemon(t)
	out, err := py.command(t, program, p.URL).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	judgePythonExamples(t, blocks, string(out))
	p.Stop(t)
}

// judgePythonExamples is judgeExamples with the comments of Python.
func judgePythonExamples(t *testing.T, blocks []testenv.Block, output string) {
	t.Helper()
	for i := range blocks {
		blocks[i].Text = strings.ReplaceAll(blocks[i].Text, ")  # ", ") // ")
	}
	judgeExamples(t, blocks, output, `.*print\(.*\)`)
}

// The package and its tests pass the strictest type check.
func TestPythonClientTypes(t *testing.T) {
	t.Parallel()
	py := needPython(t, "mypy")
	cmd := py.command(t, "-m", "mypy", "--strict", "--cache-dir", t.TempDir(), "pqbridge", "tests")
	cmd.Dir = py.source
	cmd.Env = append(cmd.Env, "MYPYPATH=tests")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// What is built has all modules, the mark of a typed package and the license, and works where
// nothing of the repository is.
func TestPythonClientPackage(t *testing.T) {
	t.Parallel()
	py := needPython(t, "build", "setuptools")
	dir := t.TempDir()
	source, dist, installed := filepath.Join(dir, "source"), filepath.Join(dir, "dist"), filepath.Join(dir, "installed")
	if err := os.CopyFS(source, os.DirFS(py.source)); err != nil {
		t.Fatal(err)
	}
	if out, err := py.command(t, "-m", "build", "--no-isolation", "--outdir", dist, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wheels := matching(t, filepath.Join(dist, "*.whl"))
	if sources := matching(t, filepath.Join(dist, "*.tar.gz")); len(wheels) != 1 || len(sources) != 1 {
		t.Fatalf("wheels %q and sources %q, expected one of each", wheels, sources)
	}
	if out, err := py.command(t, "-m", "pip", "install", "--no-index", "--no-deps", "--target", installed, wheels[0]).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, file := range append(matching(t, filepath.Join(py.source, "pqbridge/*.py")), "py.typed") {
		if _, err := os.Stat(filepath.Join(installed, "pqbridge", filepath.Base(file))); err != nil {
			t.Error(err)
		}
	}
	if pqd.Read(t, filepath.Join(pyClient, "LICENSE")) != pqd.Read(t, "../../LICENSE") {
		t.Error("the license of the Python client differs from the project's")
	}
	p := testenv.Daemon(t)
	cmd := py.command(t, "-c", `import sys
from pqbridge import sync
with sync.connect(sys.argv[1]) as client:
    client.queue("q").push("x")
    print(client.queue("q").pop().text, sync.__file__)`, p.URL)
	cmd.Env = append(cmd.Env, "PYTHONPATH="+installed)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "x "+installed) {
		t.Errorf("%v\n%s", err, out)
	}
	p.Stop(t)
}
