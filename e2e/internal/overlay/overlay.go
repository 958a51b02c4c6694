// Package overlay builds pqd with other files in place of some of Go's own, so that a test changes what no setting of a program
// reaches, such as its clock, or how long its disk takes. Nothing of that is in the program that users have.
package overlay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

// Change says what a pqd has that others have not.
type Change struct {
	Package string            // of the standard library
	File    string            // of that package
	Edits   map[string]string // of the file: each text is there once
	Added   []byte            // a file of the package besides
	Pqd     []byte            // a file of cmd/pqd besides
}

// Program is pqd of that name with a change.
func Program(t testing.TB, name string, c Change) string {
	t.Helper()
	return testenv.BuildAs(t, name, "cmd/pqd", func() ([]string, error) {
		overlay, err := c.write(t.TempDir())
		return []string{"-overlay", overlay}, err
	})
}

// write writes what go build takes in place of files, and returns the file that says so.
func (c Change) write(dir string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Most)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("ask where Go and this module are: %w", err)
	}
	root, module, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	std, pqd := filepath.Join(root, "src", c.Package), filepath.Join(filepath.Dir(module), "cmd", "pqd")
	text, err := c.edited(filepath.Join(std, c.File))
	if err != nil {
		return "", err
	}
	files := struct{ Replace map[string]string }{make(map[string]string)}
	for place, text := range map[string][]byte{
		filepath.Join(std, c.File):       text,
		filepath.Join(std, "overlay.go"): c.Added,
		filepath.Join(pqd, "overlay.go"): c.Pqd,
	} {
		written := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(place, "/"), "/", "-"))
		if err := os.WriteFile(written, text, 0o600); err != nil {
			return "", err
		}
		files.Replace[place] = written
	}
	list, err := json.Marshal(files)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, list, 0o600)
}

// edited is a file with the edits. Another version of Go may have other lines there.
func (c Change) edited(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for before, behind := range c.Edits {
		if n := bytes.Count(text, []byte(before)); n != 1 {
			return nil, fmt.Errorf("%s has %d times %q: expected once, so that it can be changed", file, n, before)
		}
		text = bytes.Replace(text, []byte(before), []byte(behind), 1)
	}
	return text, nil
}

// Tell writes the file of a process that says what it is to do, and returns when the process has read it: it logs done.
func Tell(t testing.TB, p *testenv.Process, file, text, done string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.PID(), syscall.SIGUSR2); err != nil {
		t.Fatalf("tell pqd to read %s: %v", file, err)
	}
	p.AwaitLog(t, done)
}
