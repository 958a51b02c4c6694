package listening

import (
	"strings"
	"testing"
)

// The inboxes of all connections with one prefix are one kind.
func TestKinds(t *testing.T) {
	t.Parallel()
	const a, b = "mZHK3ftDlc1XnSaNVxxDOh", "AbCdEfGhIjKlMnOpQrStUv" // as libraries choose them
	for reply, want := range map[string]kind{
		"_INBOX." + a:                         {"_INBOX", 1},
		"_INBOX." + a + ".x":                  {"_INBOX", 2},
		"_INBOX." + a + "." + b:               {"_INBOX", 2},
		"_INBOX.worker." + a + ".7":           {"_INBOX.worker", 2},
		"_INBOX.team.worker." + a + ".w." + b: {"_INBOX.team.worker", 3},
		"_INBOX.worker.one.7":                 {"_INBOX.worker", 2},
		"_INBOX.one.7":                        {"_INBOX", 2},
		"_INBOX.one":                          {"_INBOX", 1},
		a + "." + b:                           {a, 1},
		"answers":                             {"answers", 0},
	} {
		if got := kindOf(reply); got != want {
			t.Errorf("%s: %+v, expected %+v", reply, got, want)
		}
	}
	k := kind{"_INBOX.worker", 2}
	if one, other := k.inbox(), k.inbox(); one == other || !strings.HasPrefix(one, "_INBOX.worker.") || kindOf(one) != k {
		t.Errorf("inboxes that nobody has: %s, %s", one, other)
	}
}
