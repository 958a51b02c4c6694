// Package nightly marks the tests that are left to the run at night. The gate, which each change passes, runs with
// -short; make nightly, and go test alone, run everything.
package nightly

import "testing"

// share is the part of a random test that the gate runs.
const share = 5

// Only skips a test in the gate. The reason names the test of the gate that covers the same.
func Only(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip("nightly: " + reason)
	}
}

// Fewer is how many rounds of n a random test runs.
func Fewer(n int) int {
	if testing.Short() {
		return max(n/share, 1)
	}
	return n
}
