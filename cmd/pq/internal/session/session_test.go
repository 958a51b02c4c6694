package session

import (
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"1d": 24 * time.Hour, "7d12h": 180 * time.Hour, "0d": 0, "90s": 90 * time.Second, "65535d": 65535 * 24 * time.Hour,
	} {
		if got, err := ParseDuration(text); got != want || err != nil {
			t.Errorf("%s is %s, %v, expected %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "1", "-1d", "-5s", "1d-2h", "1.5d", "1d1d", "1h1d", "65536d", "65535d2000000h"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%s is %s, expected an error", text, got)
		}
	}
}
