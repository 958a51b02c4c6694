package protocol_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// Each code has a text of its own, and JetStream's error code follows from it.
func TestCodes(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	for _, code := range protocol.ErrorCodes {
		text := protocol.Description(code)
		if other, is := seen[text]; is || text == "" {
			t.Errorf("the codes %d and %d are both %q", other, code, text)
		}
		seen[text] = code
		if e := protocol.NewErrorResponse(protocol.ErrorResponseType, code, text).Error; e.Code != code || e.ErrCode != 30_000+code || e.Description != text {
			t.Errorf("code %d: %+v", code, e)
		}
	}
	for _, c := range []struct {
		status, body string
		want         bool
	}{{"503", "", true}, {"503", "x", false}, {"404", "", false}, {"", "", false}} {
		if got := protocol.NoResponders(c.status, []byte(c.body)); got != c.want {
			t.Errorf("status %q with %q: no responders %t, expected %t", c.status, c.body, got, c.want)
		}
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{`"30s"`: 30 * time.Second, `" 1h30m\n"`: 90 * time.Minute} {
		var d protocol.Duration
		if err := json.Unmarshal([]byte(text), &d); err != nil || time.Duration(d) != want {
			t.Errorf("%s is read as %s, %v", text, d, err)
		}
	}
}

// Only a server's message without a body says that nobody has heard the request.
func TestNoResponders(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status, body string
		want         bool
	}{{"503", "", true}, {"503", "an item", false}, {"404", "", false}, {"", "", false}} {
		if got := protocol.NoResponders(tc.status, []byte(tc.body)); got != tc.want {
			t.Errorf("status %q, body %q: %v, expected %v", tc.status, tc.body, got, tc.want)
		}
	}
}
