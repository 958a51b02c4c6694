package patience

import (
	"testing"
	"time"
)

// The bound is long everywhere, and grows with what the processors have to do besides.
func TestFactor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		loadavg    string
		processors int
		want       float64
	}{
		{"", 2, 1},
		{"none", 2, 1},
		{"0.10 0.20 0.30 1/100 4711\n", 2, 1},
		{"8.00 0.20 0.30 1/100 4711\n", 2, 1},
		{"40.00 0.20 0.30 1/100 4711\n", 2, 5},
		{"40.00 0.20 0.30 1/100 4711\n", 16, 1},
		{"4000.00 0.20 0.30 1/100 4711\n", 2, 10},
	} {
		if got := factorAt(parse(c.loadavg), c.processors); got != c.want {
			t.Errorf("%q on %d processors: %v, expected %v", c.loadavg, c.processors, got, c.want)
		}
	}
	if Long < 3*time.Minute || Long > most*3*time.Minute || Times(2*time.Second) < 2*time.Second {
		t.Errorf("tests wait for %s, and for %s instead of 2s", Long, Times(2*time.Second))
	}
}
