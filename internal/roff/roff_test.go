package roff

import "testing"

func TestText(t *testing.T) {
	t.Parallel()
	if got, want := Text(".a\n'b\n-c \\d\n e.f…"), "\\&.a\n\\&'b\n\\-c \\ed\n e.f\\[u2026]"; got != want {
		t.Errorf("found %q, expected %q", got, want)
	}
}
