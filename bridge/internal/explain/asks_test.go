package explain_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/explain"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// Who has asked counts for as long as was said, and the bounds of what is remembered cost the oldest asks.
func TestAsks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	asks := explain.NewAsks(func() time.Time { return now })
	band := func(n int64) fdbpq.Band { return fdbpq.Band{Low: n, High: n} }
	lately := func(what string, want ...fdbpq.Band) {
		t.Helper()
		if got := asks.Lately("q"); !slices.Equal(got, want) {
			t.Errorf("%s: asked for %v, expected %v", what, got, want)
		}
	}
	lately("nobody has asked")
	asks.Note("q", band(1), time.Minute)
	asks.Note("q", band(2), time.Hour)
	asks.Note("q", band(2), time.Second)
	now = now.Add(59 * time.Second)
	lately("before a minute is over", band(1), band(2))
	now = now.Add(time.Second)
	lately("a minute later: an ask that lasts for less does not end a longer one", band(2))
	for n := range int64(9) {
		asks.Note("q", band(10+n), time.Minute+time.Duration(n))
	}
	lately("of many bands those that last longest", band(16), band(2), band(17), band(18), band(12), band(13), band(14), band(15))
	for n := range 5000 {
		asks.Note(fmt.Sprint(n), band(1), time.Hour)
	}
	if got := asks.Lately("4999"); len(got) != 1 {
		t.Errorf("the last of many queues was asked for %v", got)
	}
}
