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
	exchangesFile = "store.json"   // requests about that store, and its answers
	apiDir        = "api"          // what its packages export, a file a package
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

// TestFreeze writes the files of a release, in three parts: make freeze runs all of them, or one. A part that is not
// written still holds the program to what it was. Whoever changes a release that is tagged breaks what these files are for.
func TestFreeze(t *testing.T) {
	if *freeze == "" {
		t.Skip("make freeze VERSION=<version> writes what later releases are held to")
	}
	dir := filepath.Join(releasesDir, *freeze)
	// A new store has new ids, so its requests and answers are new as well.
	t.Run("store", func(t *testing.T) { writeStore(t, dir) })
	// The store and the requests stay: this program answers them.
	t.Run("answers", func(t *testing.T) {
		writeAnswers(t, dir, readRecording(t, dir))
		write(t, filepath.Join(dir, casesFile), pqd.Read(t, "../testdata/clients/cases.json"))
	})
	t.Run("api", func(t *testing.T) { writeAPI(t, dir) })
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
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
