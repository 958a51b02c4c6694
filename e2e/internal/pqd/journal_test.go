package pqd

import (
	"testing"
	"time"
)

// A journal says how many tokens a delivery has found at least.
func TestJournal(t *testing.T) {
	t.Parallel()
	zero := time.Now()
	of := func(tokens int64, from, until float64, delivery bool) entry {
		at := func(seconds float64) time.Time { return zero.Add(time.Duration(seconds * float64(time.Second))) }
		return entry{tokens, at(from), at(until), delivery}
	}
	delivery := func(tokens int64, at float64) entry { return of(tokens, at, at, true) }
	for name, c := range map[string]struct {
		room int64
		of   []entry
	}{
		"the first finds a full bucket":           {10, []entry{delivery(25, 0)}},
		"one waits for the debt and a token":      {1, []entry{delivery(25, 0), delivery(1, 1.6)}},
		"and does not":                            {0, []entry{delivery(25, 0), delivery(1, 1.5)}},
		"a bucket is never more than full":        {-14, []entry{delivery(1, 0), delivery(25, 100), delivery(1, 100.1)}},
		"what came back before counts":            {6, []entry{delivery(25, 0), of(-20, 0.05, 0.06, false), delivery(1, 0.1)}},
		"what may have come back by then, too":    {6, []entry{delivery(25, 0), of(-20, 0.1, 0.9, false), delivery(1, 0.1001)}},
		"what came back later does not":           {-14, []entry{delivery(25, 0), of(-20, 0.2, 0.3, false), delivery(1, 0.1)}},
		"what was taken besides does":             {1, []entry{delivery(5, 0), of(5, 0.01, 0.02, false), delivery(1, 0.1)}},
		"what may have been taken later does not": {6, []entry{delivery(5, 0), of(5, 0.01, 0.12, false), delivery(1, 0.1)}},
		"a window begins behind what came back":   {-4, []entry{delivery(25, 0), of(-25, 1, 1.1, false), delivery(15, 50), delivery(1, 50.1)}},
	} {
		j := journal{entries: c.of}
		if room := j.room(10, time.Second); room != c.room {
			t.Errorf("%s: %d tokens, expected %d", name, room, c.room)
		}
	}
}
