package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

// scripts is where the JavaScript of these tests is, with the packages that
// npm ci installs.
const scripts = "testdata/js"

// Everything that clients do with nats.js, over TCP.
func TestNodeClient(t *testing.T) {
	t.Parallel()
	node := needNode(t)
	p := testenv.Daemon(t)
	judgeSuite(t, []byte(run(t, node.path, filepath.Join(scripts, "node.mjs"), p.URL)))
	p.Stop(t)
}

// judgeSuite reports the results of testdata/js/suite.mjs.
func judgeSuite(t *testing.T, results []byte) {
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

// nodejs runs JavaScript with nats.js.
type nodejs struct {
	path     string // of node
	packages string
}

// needNode skips the test where there is no node, or the packages are not
// installed.
func needNode(t *testing.T) nodejs {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED WITH nats.js: there is no node")
	}
	version := run(t, path, "--version")
	var major int
	if _, err := fmt.Sscanf(version, "v%d.", &major); err != nil || major < oldestNode {
		t.Skipf("NOT TESTED WITH nats.js: node is %q, expected v%d or newer", version, oldestNode)
	}
	packages, err := filepath.Abs(filepath.Join(scripts, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(packages); err != nil {
		t.Skipf("NOT TESTED WITH nats.js: run npm ci in cmd/pqd/%s", scripts)
	}
	return nodejs{path: path, packages: packages}
}

// dir returns a directory in which scripts find the packages.
func (n nodejs) dir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(n.packages, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// run runs a program that ends by itself, and returns what it printed.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", filepath.Base(program), err, out, stderr.String())
	}
	return string(out)
}
