package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOutputFile(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	for _, test := range []struct {
		name      string
		before    string // what the file holds; "": there is none
		overwrite bool
		appears   bool // while it is written
		failure   error
		after     string
		err       string
	}{
		{name: "a new file", after: "new"},
		{name: "a new file that fails", failure: failed, err: "failed"},
		{name: "an existing file", before: "old", after: "old", err: "--force"},
		{name: "one to overwrite", before: "old", overwrite: true, after: "new"},
		{name: "one to overwrite that fails", before: "old", overwrite: true, failure: failed, after: "old", err: "failed"},
		{name: "one that appears meanwhile", appears: true, after: "other", err: "--force"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			name := filepath.Join(dir, "file")
			write := func(text string) {
				if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			if test.before != "" {
				write(test.before)
			}
			file, err := createOutput(name, test.overwrite)
			if exists := test.before != "" && !test.overwrite; exists != (err != nil) {
				t.Errorf("the file exists: %v, and writing begins with %v", exists, err)
			}
			if err == nil {
				_, writeErr := io.WriteString(file, "new")
				if now, _ := os.ReadFile(name); writeErr != nil || string(now) != test.before {
					t.Errorf("the file has %q while it is written, expected %q; %v", now, test.before, writeErr)
				}
				if test.appears {
					write("other")
				}
				err = file.end(test.failure)
			}
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, expected %q", err, test.err)
			}
			if after, _ := os.ReadFile(name); string(after) != test.after {
				t.Errorf("the file has %q, expected %q", after, test.after)
			}
			if info, err := os.Stat(name); test.before != "" && (err != nil || info.Mode().Perm() != 0o640) {
				t.Errorf("%v, %v: expected the permissions that the file had", info, err)
			}
			want := min(1, len(test.after))
			if left, err := os.ReadDir(dir); err != nil || len(left) != want {
				t.Errorf("left %v, %v: expected %d", left, err, want)
			}
		})
	}
}

// The file that a link leads to is replaced, and not the link.
func TestOutputByLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(name, []byte("old"), 0o600), os.Symlink(name, link)); err != nil {
		t.Fatal(err)
	}
	file, err := createOutput(link, true)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(file, "new")
	if err := file.end(err); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "new" {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("%v, %v: expected a link", info, err)
	}
}
