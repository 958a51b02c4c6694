package settings

import (
	"testing"
	"time"
)

func TestSilence(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"300ms": 300 * time.Millisecond, "0.5s": 500 * time.Millisecond, "5s": 5 * time.Second,
		"299ms": 0, "5001ms": 0, "500": 0, "": 0, "-1s": 0, "half a second": 0,
	} {
		var s silence
		err := s.Decode(value)
		if got := time.Duration(s); got != want || (err == nil) != (want > 0) {
			t.Errorf("PQ_CLUSTER_SILENCE=%q is %v, %v: expected %v", value, got, err, want)
		}
	}
}
