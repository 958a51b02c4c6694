package listening

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
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
