// Package clock has a pqd whose wall clock a test sets while it runs. A Go program asks the kernel for the time without the C
// library, so nothing outside of it can lie to it: this pqd has a package time of its own, made of that of the Go
// that builds it. Its monotonic clock goes on, as it does on a machine whose wall clock is set.
package clock

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/testenv"
)

// What package time has besides, and what has pqd move its clock.
var (
	//go:embed testdata/time.go
	ofTime []byte
	//go:embed testdata/pqd.go
	ofPqd []byte
)

// time.Now begins with these lines. The one between them moves its wall clock.
const (
	asksRuntime = "\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	moves       = "\tsec, nsec = moved(sec, nsec)\n"
	goesOn      = "\tif mono == 0 {\n"
)

// Program is pqd with a wall clock of its own for each process that has [File] in its environment.
func Program(t testing.TB) string {
	t.Helper()
	return testenv.BuildAs(t, "pqd-moved", "cmd/pqd", func() ([]string, error) {
		overlay, err := overlay(t.TempDir())
		return []string{"-overlay", overlay}, err
	})
}

// variable has the path of the files that say how far clocks are from the machine's. Nodes, which all have the same
// environment, have one each, by their names.
const variable = "CLOCK_FILE"

// File is the setting of processes whose clocks a test sets. They are right at first.
func File(t testing.TB) string {
	t.Helper()
	return variable + "=" + filepath.Join(t.TempDir(), "clock")
}

// sets numbers the jumps, so that the log of a process tells one from another.
var sets atomic.Int64

// Set has the wall clock of a process differ from the machine's, and returns when it does. The clock stays so when the
// process starts again.
func Set(t testing.TB, p *testenv.Process, by time.Duration) {
	t.Helper()
	number := sets.Add(1)
	if err := os.WriteFile(p.Setting(variable)+p.Setting("PQ_NODE"), fmt.Appendf(nil, "%s %d", by, number), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.PID(), syscall.SIGUSR2); err != nil {
		t.Fatalf("tell pqd that its clock jumps: %v", err)
	}
	p.AwaitLog(t, fmt.Sprintf(`"clock":"%d"`, number))
}

// overlay writes what go build takes in place of files, and returns the file that says so.
func overlay(dir string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Most)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("ask where Go and this module are: %w", err)
	}
	root, module, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	std, pqd := filepath.Join(root, "src", "time"), filepath.Join(filepath.Dir(module), "cmd", "pqd")
	now, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		return "", err
	}
	if n := bytes.Count(now, []byte(asksRuntime+goesOn)); n != 1 {
		return "", fmt.Errorf("%s has %d times %q: expected once, so that its clock can be moved", filepath.Join(std, "time.go"), n, asksRuntime+goesOn)
	}
	files := struct{ Replace map[string]string }{make(map[string]string)}
	for place, text := range map[string][]byte{
		filepath.Join(std, "time.go"):  bytes.Replace(now, []byte(asksRuntime), []byte(asksRuntime+moves), 1),
		filepath.Join(std, "moved.go"): ofTime,
		filepath.Join(pqd, "moved.go"): ofPqd,
	} {
		written := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(place, "/"), "/", "-"))
		if err := os.WriteFile(written, text, 0o600); err != nil {
			return "", err
		}
		files.Replace[place] = written
	}
	text, err := json.Marshal(files)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}
