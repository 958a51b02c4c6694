package versions_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// lacking are tests of this repository's clients, or parts such as TestPythonClient/queue, that need a later pqd than the
// earlier one, and the error by which the client names what is missing. It is empty again when the earlier program moves on.
var lacking = map[string]string{}

// installed is what tests of clients need besides the source.
var installed = []string{"e2e/testdata/js/node_modules", "e2e/testdata/python/.venv", "e2e/testdata/clients/bin"}

// suite is the tests of the clients of a commit, beside programs of two.
type suite struct {
	root     string // of the source
	programs string // directory
}

// The clients of the earlier program work with this pqd, and these clients with the earlier pqd, in all that the tests of the clients
// ask of them: in Go, JavaScript and Python, and pq. Each item comes once beside kills of the pqd.
func TestVersionsOfClients(t *testing.T) {
	before := needEarlier(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	kills := cmp.Or(*pqd.Kills, 10)
	// A moment of the campaign has kills alone: the other tests take minutes.
	all := kills > 1
	ours, theirs := make(map[string]string), make(map[string]string)
	for _, program := range []string{"cmd/pqd", "cmd/pq", "examples/worker"} {
		ours[program], theirs[program] = testenv.Build(t, program), before.build(t, program)
	}
	callers := []string{"./e2e/faults", "-run", "^TestCallersBesideKills$", "-pq.ops=20000", fmt.Sprint("-pq.kills=", kills)}
	t.Run("earlier clients", func(t *testing.T) {
		before.install(t, root)
		s := suite{before.source(), programs(t, ours["cmd/pqd"], theirs["cmd/pq"], theirs["examples/worker"])}
		if all {
			s.run(t, append(before.byDay(t), "./e2e/clients")...)
		}
		s.run(t, callers...)
		// These tests have two kills each, unless they know the flag.
		s.run(t, "./e2e/clients", "-run", "^Test(JavaScript|Python)ClientKills$", "-count", fmt.Sprint((kills+1)/2))
		suite{root, s.programs}.run(t, "./e2e/clients", "-run", "^TestPqKills$", fmt.Sprint("-pq.kills=", kills))
	})
	t.Run("these clients", func(t *testing.T) {
		s := suite{root, programs(t, theirs["cmd/pqd"], ours["cmd/pq"], ours["examples/worker"])}
		skip := "^$"
		for test, text := range lacking {
			skip += "|" + s.fails(t, test, text)
		}
		if all {
			s.run(t, "./e2e/clients", "-skip", skip)
		}
		s.run(t, callers...)
		s.run(t, "./e2e/clients", "-run", "^Test(Pq|JavaScriptClient|PythonClient)Kills$", fmt.Sprint("-pq.kills=", kills))
	})
}

// install links what is installed into the source of the commit.
func (e earlier) install(t *testing.T, root string) {
	t.Helper()
	for _, name := range installed {
		link := filepath.Join(e.source(), name)
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(root, name), link); err != nil {
			t.Fatal(err)
		}
	}
}

// byDay are the arguments by which the tests of the commit leave out those of the night. Before PQ_TEST asked for the night, -short
// left it out.
func (e earlier) byDay(t *testing.T) []string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(e.source(), "internal/nightly/nightly.go"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a later commit has it elsewhere
		t.Fatal(err)
	}
	if bytes.Contains(file, []byte("testing.Short")) {
		return []string{"-short"}
	}
	return nil
}

// programs is a directory of programs for tests.
func programs(t *testing.T, paths ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, path := range paths {
		if err := os.Symlink(path, filepath.Join(dir, filepath.Base(path))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// command prepares go test with the programs.
func (s suite) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	args = slices.Concat([]string{"test", "-C", s.root, "-vet=off", "-timeout", "1h"}, args)
	if !slices.Contains(args, "-count") {
		args = slices.Insert(args, 3, "-count", "1")
	}
	cmd := pqd.Compiler(t, "go", args...)
	ring := "" // a whole suite leaves out the tests of the night
	if slices.Contains(args, "-run") {
		ring = "nightly"
	}
	cmd.Env = append(os.Environ(), "PQ_TEST_PROGRAMS="+s.programs, "PQ_TEST="+ring)
	return cmd
}

// fails runs a test that has to fail with a text, and returns the pattern of its name.
func (s suite) fails(t *testing.T, test, text string) (pattern string) {
	t.Helper()
	pattern = "^" + strings.ReplaceAll(test, "/", "$/^") + "$"
	if out, err := s.command(t, "./e2e/clients", "-run", pattern).CombinedOutput(); err == nil || !strings.Contains(string(out), text) {
		t.Errorf("%s: expected that it fails with %q: %v\n%s", test, text, err, out)
	}
	return pattern
}

// run runs tests.
func (s suite) run(t *testing.T, args ...string) {
	t.Helper()
	out, err := s.command(t, args...).CombinedOutput()
	if err != nil {
		t.Errorf("go test %s in %s: %v\n%s", strings.Join(args, " "), s.root, err, out)
		return
	}
	t.Logf("go test %s in %s: %s", strings.Join(args, " "), s.root, out)
}
