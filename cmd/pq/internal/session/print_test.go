package session

import (
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

func TestBar(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"pushing [===============               ]  50%  500 of 1,000  250/s  2s left":     bar("pushing", 500, 1000, 2*time.Second, show.Thousands),
		"pushing [==============================] 100%  2,000 of 1,000  1,000/s  0s left": bar("pushing", 2000, 1000, 2*time.Second, show.Thousands),
		"pushing [                              ]   0%  0 of 1,000  0/s  ? left":          bar("pushing", 0, 1000, 0, show.Thousands),
		"reading 3.0 KiB  1.5 KiB/s": bar("reading", 3072, 0, 2*time.Second, show.Size),
	} {
		if got != want {
			t.Errorf("got      %s\nexpected %s", got, want)
		}
	}
}

// A progress line is erased at the end.
func TestProgress(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := &Progress{out: &out, what: "pushing", total: 10, unit: show.Thousands, started: time.Now()}
	p.Add(5)
	p.Add(5) // too soon to be drawn
	p.End()
	if got := out.String(); !strings.HasPrefix(got, "\rpushing [===============               ]  50%") ||
		!strings.HasSuffix(got, "\r\x1b[K") || strings.Contains(got, "100%") {
		t.Errorf("drew %q", got)
	}
}
