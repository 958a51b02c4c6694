package pqd

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/testenv"
)

// Command prepares a program that is killed when it has not ended in time.
func Command(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	return within(t, testenv.Most, program, args...)
}

// Compiler prepares a program that compiles another one.
func Compiler(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	return within(t, testenv.Compile, program, args...)
}

func within(t *testing.T, limit time.Duration, program string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = testenv.Times(5 * time.Second) // what it has started may live on, and has its output open
	return cmd
}

// Run runs a program that ends by itself, and returns what it printed.
func Run(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := Command(t, program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", filepath.Base(program), err, out, stderr.String())
	}
	return string(out)
}
