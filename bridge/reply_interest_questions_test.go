package bridge

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// A client that knows where the server answers does not know the question that it answers.
func TestQuestionsCannotBeGuessed(t *testing.T) {
	t.Parallel()
	r := replyInterest{inbox: "_INBOX.x", sub: new(nats.Subscription), refused: make(map[string]bool)}
	seen := make(map[string]bool)
	for range 100 {
		questions, err := r.open(2)
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
