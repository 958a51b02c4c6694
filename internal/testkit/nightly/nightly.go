// Package nightly marks the tests that are left to the run at night. go test and the gate, which each change passes, leave
// them out; make nightly asks for them by PQ_TEST=nightly. A test that is asked for by its name runs always.
package nightly

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// share is the part of a random test that runs by day.
const share = 5

// Runs reports whether this is the run at night.
func Runs() bool { return os.Getenv("PQ_TEST") == "nightly" }

// Only skips a test by day. The reason names the test of the gate that covers the same.
func Only(t testing.TB, reason string) {
	t.Helper()
	if !Runs() && !isNamed(t.Name(), flag.Lookup("test.run").Value.String()) {
		t.Skip("nightly: " + reason)
	}
}

// isNamed reports whether a pattern of go test asks for this test, and for no other.
func isNamed(test, pattern string) bool {
	test, _, _ = strings.Cut(test, "/")
	pattern, _, _ = strings.Cut(pattern, "/")
	return strings.TrimSuffix(strings.TrimPrefix(pattern, "^"), "$") == test
}

// Fewer is how many rounds of n a random test runs.
func Fewer(n int) int {
	if !Runs() {
		return max(n/share, 1)
	}
	return n
}
