package compatibility_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
)

// A release leaves behind what later ones are held to, in a directory with its version as the name.
const (
	releasesDir   = "../testdata/releases"
	storeFile     = "store.tar.gz" // the directory of an embedded store that it has written
	exchangesFile = "store.json"   // what it answered to requests about that store
	apiFile       = "api.txt"      // what its packages export
	casesFile     = "cases.json"   // what any client of NATS can do with it
)

var freeze = flag.String("pq.freeze", "", "version whose files TestFreeze writes")

// releases are the directories of the releases.
func releases(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(releasesDir + "/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("found %d releases in %s: %v", len(dirs), releasesDir, err)
	}
	return dirs
}

// TestFreeze writes the files of a release: make freeze runs it. Whoever changes a release that is
// tagged breaks what these files are for.
func TestFreeze(t *testing.T) {
	if *freeze == "" {
		t.Skip("make freeze VERSION=<version> writes what later releases are held to")
	}
	dir := filepath.Join(releasesDir, *freeze)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	writeStore(t, dir)
	write(t, filepath.Join(dir, apiFile), apiText(exportedNames(t)))
	write(t, filepath.Join(dir, casesFile), pqd.Read(t, "../testdata/clients/cases.json"))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func marshal(t *testing.T, value any) string {
	t.Helper()
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}
