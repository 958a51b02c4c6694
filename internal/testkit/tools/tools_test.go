package tools

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write writes a file below the present folder.
func write(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A change of what a tool reads changes the variable of this tool, and of no other one.
func TestVariables(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", filepath.Join(t.TempDir(), "none")+":"+filepath.Join(must(os.Getwd()), "programs"))
	for _, folder := range []string{"clients/js", "clients/python", "e2e/testdata", "examples"} {
		write(t, folder+"/read", "1")
	}
	values := func() map[string]string {
		found := make(map[string]string)
		for _, variable := range must(Variables()) {
			name, value, _ := strings.Cut(variable, "=")
			found[name] = value
		}
		return found
	}
	before := values()
	for _, change := range []struct {
		path, text string
		of         []string
	}{
		{"clients/js/src/a.js", "1", []string{"PQ_TEST_NODE"}},
		{"clients/js/src/a.js", "2", []string{"PQ_TEST_NODE"}},
		{"clients/js/node_modules/b.js", "1", nil},
		{"clients/python/a.py", "1", []string{"PQ_TEST_PYTHON"}},
		{"clients/python/__pycache__/a.pyc", "1", nil},
		{"examples/a", "1", []string{"PQ_TEST_NODE", "PQ_TEST_PYTHON"}},
		{"e2e/testdata/js/node_modules/c/c.js", "1", []string{"PQ_TEST_NODE"}},
		{"e2e/testdata/js/node_modules/c/c.js", "2", []string{"PQ_TEST_NODE"}},
		{"e2e/testdata/python/.venv/lib/d.py", "1", []string{"PQ_TEST_PYTHON"}},
		{"e2e/testdata/python/.venv/lib/__pycache__/d.pyc", "1", nil},
		{"e2e/testdata/clients/bin/nats", "1", []string{"PQ_TEST_NATS"}},
		{"programs/chromium", "1", []string{"PQ_TEST_BROWSER"}},
		{"programs/chromium", "a later version", []string{"PQ_TEST_BROWSER"}},
		{"programs/npm", "1", []string{"PQ_TEST_NODE"}},
	} {
		write(t, change.path, change.text)
		now := values()
		var changed []string
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if now[name] != before[name] {
				changed = append(changed, name)
			}
		}
		if !slices.Equal(changed, change.of) {
			t.Errorf("%s: %v changed, expected %v", change.path, changed, change.of)
		}
		before = now
	}
}

// A program is looked for in the folder first.
func TestFind(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "installed/nats", "1")
	write(t, "path/nats", "1")
	here := must(os.Getwd())
	t.Setenv("PATH", filepath.Join(here, "path"))
	for folder, want := range map[string]string{"installed": "installed/nats", "none": "path/nats"} {
		if found, err := Find("nats", folder); err != nil || found != filepath.Join(here, want) {
			t.Errorf("in %s: %s, %v, expected %s", folder, found, err, want)
		}
	}
	if found, err := Find("nats2"); err == nil {
		t.Errorf("found %s", found)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
