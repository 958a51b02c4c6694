package versions_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
)

// earlier is the source of an earlier commit, and what is built from it. It lies outside of this repository, in the
// user's cache, and is used again by the next campaign.
type earlier struct {
	commit string
	dir    string
}

// needEarlier is the commit that -pq.old names.
func needEarlier(t *testing.T) earlier {
	t.Helper()
	if *flagOld == "" {
		t.Skip("no -pq.old: make campaign NAME=versions")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	commit := strings.TrimSpace(pqd.Run(t, "git", "-C", root, "rev-parse", "--verify", *flagOld+"^{commit}"))
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	e := earlier{commit: commit, dir: filepath.Join(cache, "pqbridge-versions", commit)}
	e.once(t, e.source(), func(dir string) {
		archive := filepath.Join(dir, "source.tar")
		pqd.Run(t, "git", "-C", root, "archive", "-o", archive, commit)
		pqd.Run(t, "tar", "-x", "-C", dir, "-f", archive)
		if err := os.Remove(archive); err != nil {
			t.Fatal(err)
		}
	})
	return e
}

// source is the directory of what the commit has.
func (e earlier) source() string { return filepath.Join(e.dir, "source") }

// build builds a program of the commit, as tests build this one, and returns its path.
func (e earlier) build(t *testing.T, program string) string {
	t.Helper()
	name := filepath.Base(program)
	dir := filepath.Join(e.dir, "programs"+buildTags, name)
	e.once(t, dir, func(dir string) {
		cmd := pqd.Compiler(t, "go", "build", "-C", e.source(), "-trimpath", "-tags", buildTags, "-o", filepath.Join(dir, name), "./"+program)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("build %s of %s: %v\n%s", program, e.commit, err, out)
		}
	})
	return filepath.Join(dir, name)
}

// once fills a directory, which then gets its name, unless it is there. Tests of several processes may do so at the same time.
func (e earlier) once(t *testing.T, path string, fill func(dir string)) {
	t.Helper()
	if _, err := os.Stat(path); err == nil {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "new-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	fill(dir)
	if err := os.Rename(dir, path); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
}

// fields are those of a queue's configuration that the commit knows.
func (e earlier) fields(t *testing.T) map[string]bool {
	t.Helper()
	known := make(map[string]bool)
	for _, mark := range regexp.MustCompile(`json:"([a-z_]+)" pq:"`).FindAllStringSubmatch(pqd.Read(t, filepath.Join(e.source(), "protocol", "config.go")), -1) {
		known[mark[1]] = true
	}
	if len(known) < 10 {
		t.Fatalf("protocol/config.go of %s has the fields %v: expected more", e.commit, known)
	}
	return known
}
