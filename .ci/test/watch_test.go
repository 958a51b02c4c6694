package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// While things take longer, less time passes.
func TestSlowedClock(t *testing.T) {
	var clock slowed
	began := time.Now()
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	if got := clock.since(began); got != 0 {
		t.Errorf("%s have passed before the first tick", got)
	}
	for _, tick := range []struct {
		at     int
		factor float64
	}{{0, 4}, {10, 1}, {20, 1}, {30, 2}, {40, 4}} {
		clock.tick(at(tick.at), tick.factor)
	}
	for since, want := range map[int]time.Duration{-5: 27500 * time.Millisecond, 0: 27500 * time.Millisecond, 10: 17500 * time.Millisecond, 15: 7500 * time.Millisecond, 30: 2500 * time.Millisecond, 40: 0, 45: 0} {
		if got := clock.since(at(since)); got != want {
			t.Errorf("since %d s: %s, expected %s", since, got, want)
		}
	}
}

// Where paths are no part of what is compiled, a result is remembered in another folder, too.
func TestRemembered(t *testing.T) {
	t.Setenv("GOFLAGS", "-trimpath")
	text := fmt.Sprintf("package scratch\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) { t.Log(%d) }\n", rand.Uint64()>>1)
	for _, want := range []string{"the results of 0 of 1 packages were remembered", "the results of 1 of 1 packages were remembered"} {
		if code, out, _ := scratch(t, "One", text, settings{limit: time.Minute}); code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, expected 0 and %q:\n%s", code, want, out)
		}
	}
}
