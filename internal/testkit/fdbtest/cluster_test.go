//go:build fdb

package fdbtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// These tests are about processes and files, so programs that are none of
// FoundationDB's will do: a server that holds a pipe open until it dies, and a
// command line that finds everything healthy.

func fakePrograms(t *testing.T) (pipe *os.File) {
	t.Helper()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	programs := map[string]string{
		"fdbserver": "#!/bin/sh\nexec 3>>" + fifo + "\nexec sleep 600\n",
		"fdbcli":    "#!/bin/sh\necho '{\"client\": {\"database_status\": {\"available\": true}}, \"cluster\": {\"data\": {\"state\": {\"healthy\": true}}}}'\n",
	}
	for name, script := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	// Opened for writing as well, opening does not wait for a server.
	both, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	pipe, err = os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pipe.Close() })
	return pipe
}

// awaitEnd returns when no server has the pipe open any more and the
// directories are gone.
func awaitEnd(t *testing.T, pipe *os.File, dirs ...string) {
	t.Helper()
	if _, err := io.ReadAll(pipe); err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		for deadline := patience.Begin(); ; runtime.Gosched() {
			_, err := os.Stat(dir)
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if deadline.Over() {
				t.Fatalf("the directory of a cluster that is no more is still there: %v", err)
			}
		}
	}
}

// TestCluster takes a cluster through its life.
func TestCluster(t *testing.T) {
	pipe := fakePrograms(t)
	var dir string
	t.Run("life", func(t *testing.T) {
		c := New(t, 3)
		dir = c.dir
		content, err := os.ReadFile(c.File)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(content), "127.0.0.1:"); n != 3 {
			t.Errorf("the cluster file has %d coordinators, expected 3: %s", n, content)
		}
		p := c.Processes[1]
		p.Kill(t)
		p.Kill(t)
		p.Start(t)
		p.Pause(t)
		p.Resume(t)
		c.Pause(t)
	})
	awaitEnd(t, pipe, dir)
}

// TestLeash ends a process that has clusters in ways that leave it no time to
// clean up.
func TestLeash(t *testing.T) {
	for _, how := range []string{"exit", "killed"} {
		t.Run(how, func(t *testing.T) {
			pipe := fakePrograms(t)
			cmd := exec.Command(os.Args[0], "-test.run", "^TestLeashHelper$")
			cmd.Env = append(os.Environ(), "PQ_TEST_LEASH="+how)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var dirs []string
			for lines := bufio.NewScanner(out); len(dirs) < 2 && lines.Scan(); {
				if dir, ok := strings.CutPrefix(lines.Text(), "dir "); ok {
					dirs = append(dirs, dir)
				}
			}
			if how == "killed" {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait() // its end is the point
			if len(dirs) != 2 {
				t.Fatalf("the other process started %d clusters, expected 2", len(dirs))
			}
			awaitEnd(t, pipe, dirs...)
		})
	}
}

// TestLeashHelper is the process that TestLeash ends.
func TestLeashHelper(t *testing.T) {
	how := os.Getenv("PQ_TEST_LEASH")
	if how == "" {
		t.Skip("runs in a process of its own only")
	}
	paused := New(t, 2)
	paused.Pause(t)
	fmt.Println("dir " + Shared(t).dir)
	fmt.Println("dir " + paused.dir)
	if how == "exit" {
		os.Exit(0)
	}
	select {}
}
