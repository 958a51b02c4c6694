package sources

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/source"
)

// Items of a link that wait for room have no more of their TTL than when they came; those without one get none.
func TestItemsOfALinkAge(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_000, 0)
	b := batch{came: at}
	for _, ttl := range []time.Duration{0, 5 * time.Second, time.Hour} {
		b.messages = append(b.messages, source.Message{Item: fdbpq.NewItem{TTL: ttl}})
	}
	for _, c := range []struct {
		after time.Duration
		want  [3]time.Duration
	}{
		{2 * time.Second, [3]time.Duration{0, 3 * time.Second, time.Hour - 2*time.Second}},
		{20 * time.Second, [3]time.Duration{0, time.Millisecond, time.Hour - 20*time.Second}},
	} {
		b.age(at.Add(c.after))
		for i, want := range c.want {
			if got := b.messages[i].Item.TTL; got != want {
				t.Errorf("after %s item %d has %s, expected %s", c.after, i, got, want)
			}
		}
	}
}
