package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Two clones have the same times. A change changes those of the file and of the folders above it, and no others.
func TestStamp(t *testing.T) {
	files := map[string]string{"a": "1", "b/c": "1", "b/d/e": "1", "f/g": "1"}
	clone := func(changed, text string) map[string]time.Time {
		dir := t.TempDir()
		var tracked []string
		for name, content := range files {
			if name == changed {
				content = text
			}
			write(t, filepath.Join(dir, name), content)
			tracked = append(tracked, name)
		}
		write(t, filepath.Join(dir, "b/node_modules/x"), "1")
		if err := stamp(dir, tracked); err != nil {
			t.Fatal(err)
		}
		times := make(map[string]time.Time)
		for _, name := range []string{".", "a", "b", "b/c", "b/d", "b/d/e", "b/node_modules", "f", "f/g"} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			times[name] = info.ModTime()
			if time.Since(info.ModTime()) < 24*time.Hour {
				t.Errorf("%s has the time %s", name, info.ModTime())
			}
		}
		return times
	}
	before := clone("", "")
	for _, change := range []struct {
		file, text string
		changes    map[string]bool
	}{
		{"", "", nil},
		{"a", "2", map[string]bool{".": true, "a": true}},
		{"b/d/e", "2", map[string]bool{".": true, "b": true, "b/d": true, "b/d/e": true}},
	} {
		for name, at := range clone(change.file, change.text) {
			if changed := !at.Equal(before[name]); changed != change.changes[name] {
				t.Errorf("%s after a change of %q: %s, before %s", name, change.file, at, before[name])
			}
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}
