package pqd

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Files are those of a node, by their paths.
func Files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err == nil {
			all[name], err = os.ReadFile(at)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Read is the text of a file.
func Read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Write writes a file that only its owner may read.
func Write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
