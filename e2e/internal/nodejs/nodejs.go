// Package nodejs runs JavaScript with nats.js in tests of a real pqd.
package nodejs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/tools"
)

// Scripts is where the JavaScript of these tests is, with the packages that
// npm ci installs.
const Scripts = "../testdata/js"

// Judge reports the results of testdata/js/suite.mjs.
func Judge(t *testing.T, results []byte) {
	t.Helper()
	var checks []struct{ Name, Error string }
	if err := json.Unmarshal(results, &checks); err != nil || len(checks) == 0 {
		t.Fatalf("expected results of checks, found %s: %v", results, err)
	}
	for _, check := range checks {
		t.Run(check.Name, func(t *testing.T) {
			if check.Error != "" {
				t.Error(check.Error)
			}
		})
	}
}

// oldestNode is the oldest version with everything that nats.js needs, such as a global
// crypto.
const oldestNode = 20

// Node runs JavaScript with nats.js.
type Node struct {
	Path     string // of node
	Packages string
}

// Need skips the test where there is no node, or the packages are not
// installed.
func Need(t *testing.T) Node {
	t.Helper()
	path, err := tools.Find("node")
	if err != nil {
		t.Skip("NOT TESTED WITH nats.js: there is no node")
	}
	version := pqd.Run(t, path, "--version")
	var major int
	if _, err := fmt.Sscanf(version, "v%d.", &major); err != nil || major < oldestNode {
		t.Skipf("NOT TESTED WITH nats.js: node is %q, expected v%d or newer", version, oldestNode)
	}
	packages, err := filepath.Abs(filepath.Join(Scripts, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(packages); err != nil {
		t.Skip("NOT TESTED WITH nats.js: run npm ci in e2e/testdata/js")
	}
	return Node{Path: path, Packages: packages}
}

// Dir returns a directory in which scripts find the packages.
func (n Node) Dir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(n.Packages, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}
