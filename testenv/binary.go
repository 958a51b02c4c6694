package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/pqbridge/pqbridge/"

// binaries is where the programs under test are built. Main makes it.
var binaries string

// Main runs the tests of a package that uses [Daemon] or [Run]. Its TestMain
// is one line: os.Exit(testenv.Main(m)).
func Main(m *testing.M) int {
	asTool(os.Args)
	dir, err := os.MkdirTemp("", "pqbridge-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaries = dir
	return m.Run()
}

// programs are those that tests of this process have asked for, by their directories. Each is built once:
// a program that runs cannot be written.
var programs sync.Map

// built is the path of a program of this repository.
func built(dir string) (string, error) {
	once, _ := programs.LoadOrStore(dir, sync.OnceValues(func() (string, error) { return build(dir) }))
	return once.(func() (string, error))()
}

// Build builds a program of this repository and returns its path.
func Build(t testing.TB, dir string) string {
	t.Helper()
	path, err := built(dir)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// build builds a program, with the race detector when the tests have it. go run keeps linked programs in
// its cache, unlike go build, so one package alone links what the tests of several need.
func build(dir string) (string, error) {
	if binaries == "" {
		return "", errors.New("this package's TestMain does not call testenv.Main")
	}
	program := filepath.Join(binaries, filepath.Base(dir))
	args := []string{"run", "-exec", "cp"}
	if raceDetector {
		args = append(args, "-race")
	}
	if buildTags != "" {
		args = append(args, "-tags", buildTags)
	}
	if out, err := exec.Command("go", append(args, module+dir, program)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", dir, err, out)
	}
	return program, nil
}

// environment is the environment of programs under test. It leaves out the variables about
// NATS and tracing of the developer's shell.
func environment() []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PQ_") && !strings.HasPrefix(entry, "NATS_") && !strings.HasPrefix(entry, "OTEL_") {
			env = append(env, entry)
		}
	}
	if raceDetector {
		env = append(env, "GORACE=atexit_sleep_ms=0") // or every end takes a second
	}
	return env
}

// command prepares pqd with these settings and no others.
func command(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := built("cmd/pqd")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(environment(), env...)
	return cmd
}

// Run runs pqd and waits until it ends by itself.
func Run(t testing.TB, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := command(t, env, args...)
	cmd.Dir = t.TempDir()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Start()
	if err == nil {
		stop := timeout(cmd)
		err = cmd.Wait()
		stop()
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("run pqd: %v", err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}
