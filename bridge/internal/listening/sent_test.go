package listening

import (
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// The leases of sent bundles are remembered once, and only so many of them.
func TestSentBundles(t *testing.T) {
	t.Parallel()
	var s Sent
	leases := leasesOfJobs(1000)
	first, second := s.Add(leases), s.Add(leases[:1])
	if len(s.Take("mail", second)) > 0 {
		t.Error("the token of a bundle holds for another queue")
	}
	if n := len(s.Take("jobs", second)); n != 1 || len(s.Take("jobs", second)) > 0 || len(s.Take("jobs", "")) > 0 {
		t.Errorf("%d leases, expected one, once", n)
	}
	if n := len(s.Take("jobs", first)); n != 1000 {
		t.Errorf("%d leases of the first bundle", n)
	}
	var tokens []string
	for range 2 * maxLeases / len(leases) {
		tokens = append(tokens, s.Add(leases))
	}
	if len(s.Take("jobs", tokens[0])) > 0 || len(s.Take("jobs", tokens[len(tokens)-1])) != len(leases) {
		t.Error("expected the oldest bundle to be forgotten, and the newest not")
	}
	if most := maxLeases/len(leases) + 1; len(s.leases) > most || len(s.line) > most || s.count > maxLeases {
		t.Errorf("%d bundles in a line of %d with %d leases are remembered", len(s.leases), len(s.line), s.count)
	}
	all := leasesOfJobs(2 * maxLeases)
	if n := len(s.Take("jobs", s.Add(all))); n != len(all) || len(s.line) != 1 {
		t.Errorf("%d leases of a bundle that is larger than the bound", n)
	}
}

// Bundles that nobody received leave the line like others, and their leases are not kept.
func TestSentBundlesThatNobodyReceives(t *testing.T) {
	t.Parallel()
	var s Sent
	for range 3 * maxLeases {
		if n := len(s.Take("jobs", s.Add(leasesOfJobs(1)))); n != 1 {
			t.Fatalf("%d leases, expected one", n)
		}
	}
	if len(s.leases) > 0 || len(s.line) > maxLeases || s.count > maxLeases {
		t.Errorf("%d bundles in a line of %d with %d leases are remembered", len(s.leases), len(s.line), s.count)
	}
	// A taken bundle leaves no room for more: its place counts until it has left.
	kept := s.Add(leasesOfJobs(maxLeases))
	if len(s.line) != 1 || s.count != maxLeases || len(s.Take("jobs", kept)) != maxLeases {
		t.Errorf("a line of %d with %d leases, expected the newest alone", len(s.line), s.count)
	}
}

// leasesOfJobs are leases of the queue jobs.
func leasesOfJobs(n int) []*fdbpq.Lease {
	of := make([]*fdbpq.Lease, n)
	for i := range of {
		of[i] = &fdbpq.Lease{Queue: "jobs"}
	}
	return of
}
