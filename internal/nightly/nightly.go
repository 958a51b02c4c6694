// Package nightly says what tests leave to the run at night. The gate, which each change passes, runs
// them with -short; make nightly, and go test alone, run all that there is.
package nightly

import "testing"

// share is which part of a random test the gate runs.
const share = 5

// Only skips a test in the gate. The reason says what the gate has of the same instead.
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
