package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/tools"
)

// pushers are callers that push with the clients of JavaScript and Python, where these are: programs that print a line for
// each success.
func pushers(t *testing.T, place, servers string) (all []*caller) {
	t.Helper()
	if node, err := tools.Find("node"); err == nil {
		if packages, err := filepath.Abs("../testdata/js/node_modules"); err == nil && exists(packages) {
			dir := t.TempDir()
			for _, err := range []error{
				os.Symlink(packages, filepath.Join(dir, "node_modules")),
				os.CopyFS(filepath.Join(dir, "client"), os.DirFS("../../clients/js")),
				os.CopyFS(dir, os.DirFS("../testdata/gaps")),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			all = append(all, pusher(t, "JavaScript "+place, pqd.Command(t, node, filepath.Join(dir, "push.mjs"), servers, "js")))
		}
	}
	const packages = "../testdata/python/.venv/bin"
	if python, err := tools.Find("python3", packages); err == nil && exists(packages) {
		source, err := filepath.Abs("../../clients/python")
		if err != nil {
			t.Fatal(err)
		}
		cmd := pqd.Command(t, python, "../testdata/gaps/push.py", servers, "python")
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+source)
		all = append(all, pusher(t, "Python "+place, cmd))
	}
	return all
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// pusher is a caller whose successes are lines of a program. It ends with the test.
func pusher(t *testing.T, who string, cmd *exec.Cmd) *caller {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan struct{})
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			lines <- struct{}{}
		}
	}()
	return &caller{who: who, do: func(ctx context.Context) error {
		select {
		case _, open := <-lines:
			if open {
				return nil
			}
			return errors.New("the program has ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}, end: func() {
		_ = cmd.Process.Kill()
		for range lines {
		}
		_ = cmd.Wait()
	}}
}
