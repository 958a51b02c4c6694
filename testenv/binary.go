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

const pqd = "github.com/pqbridge/pqbridge/cmd/pqd"

// binaries is where the programs under test are built. Main makes it.
var binaries string

// Main runs the tests of a package that uses [Daemon] or [Run]. Its TestMain
// is one line: os.Exit(testenv.Main(m)).
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pqbridge-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaries = dir
	return m.Run()
}

// build builds pqd once for all tests of the process, with the race detector
// when the tests have it.
var build = sync.OnceValues(func() (string, error) {
	if binaries == "" {
		return "", errors.New("this package's TestMain does not call testenv.Main")
	}
	path := filepath.Join(binaries, "pqd")
	args := []string{"build", "-o", path}
	if raceDetector {
		args = append(args, "-race")
	}
	if buildTags != "" {
		args = append(args, "-tags", buildTags)
	}
	if out, err := exec.Command("go", append(args, pqd)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build pqd: %w\n%s", err, out)
	}
	return path, nil
})

// command prepares pqd with these variables and nothing else of ours: what the
// developer's shell says about NATS or tracing must not reach a test.
func command(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "PQ_") && !strings.HasPrefix(entry, "NATS_") && !strings.HasPrefix(entry, "OTEL_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	if raceDetector {
		cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // or every end takes a second
	}
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// Run runs pqd to its end, which it is expected to find by itself.
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
