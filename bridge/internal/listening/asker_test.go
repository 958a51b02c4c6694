package listening

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// A client that knows where the server answers does not know the question that it answers.
func TestQuestionsCannotBeGuessed(t *testing.T) {
	t.Parallel()
	a := Asker{inbox: "_INBOX.x", sub: new(nats.Subscription), refused: make(map[string]bool)}
	seen := make(map[string]bool)
	for range 100 {
		questions, err := a.open(2)
		if err != nil {
			t.Fatal(err)
		}
		for _, question := range questions {
			token, below := strings.CutPrefix(question, "_INBOX.x.")
			if seen[question] || !below || len(token) < 26 { // of 5 bits each
				t.Fatalf("%q", question)
			}
			seen[question] = true
		}
	}
}

// Servers before version 2.11 would deliver the question whether a client still waits.
func TestServersThatTrace(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"": false, "x": false, "1.4.1": false, "2.10.29": false, "2.11.0": true, "2.11.0-dev": true, "2.12.3": true, "3.0.0": true,
	} {
		if got := traces(version); got != want {
			t.Errorf("a server of version %q traces: %t", version, got)
		}
	}
}

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
