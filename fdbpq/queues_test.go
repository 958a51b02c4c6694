package fdbpq_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// Whatever row of a queue is damaged, the queue is named.
func TestQueuesBetween(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.furnish()
		b.imports("q", fdbpq.Import{ID: b.pushed("zz", 0, "elsewhere")[0], Payload: []byte("imported")})
		seen := make(map[string]bool)
		for space := 'a'; space < 'z'; space++ { // timers are of no queue in particular
			ofQ := tuple.AppendString(tuple.AppendString(nil, string(space)), "q")
			for _, row := range b.rows(string(space)) {
				if !bytes.HasPrefix(row.Key, ofQ) {
					continue
				}
				seen[string(space)] = true
				var names []string
				b.view(func(r kv.Reader) (err error) {
					names, err = b.QueuesBetween(r, row.Key, row.Key)
					return err
				})
				if !slices.Equal(names, []string{"q"}) {
					t.Errorf("a row of kind %c: %q", space, names)
				}
			}
		}
		for _, space := range []string{"i", "d", "l", "f", "x", "m", "u", "p", "r"} {
			if !seen[space] {
				t.Errorf("there was no row of kind %q", space)
			}
		}
	})
}
