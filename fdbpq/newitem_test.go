package fdbpq_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// mostRows is how many times as many bytes as a queue counts for an item its rows take, as docs/protocol/admin.md and
// docs/tenants.md say.
const mostRows = 5

// The rows of an item without content take less than the pages say, whatever it has beside its content: the longest unique
// value, key and attempts, a death, a TTL, another priority, a lease with a holder, in a queue with the longest name, or as
// much of that as counts nothing.
func TestItemBytes(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]bool{"the longest texts": false, "texts that count nothing": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fullStore(t)
			name := strings.Repeat("t", 64) + "." + strings.Repeat("q", 64)
			q := f.Queue(name)
			f.configure(name, `{"key_limit":100,"key_order":true,"fair":"priority","attempts":16}`)
			empty := f.bytes()
			const n = 20
			var ids []fdbpq.ID
			f.update(func(tx kv.Tx) error {
				ids = nil
				for i := range n {
					item := longestItem(i)
					if free {
						item.Attempts, item.Dead = nil, nil
						item.Unique, item.Key = item.Unique[len(item.Unique)-64:], item.Key[len(item.Key)-96:]
					}
					imported, err := q.Import(tx, item)
					if err == nil {
						err = imported[0].Err
					}
					if err != nil {
						return err
					}
					ids = append(ids, imported[0].ID)
				}
				return nil
			})
			check := func(state string) {
				n := f.counts(name)
				if n.Bytes != 0 || n.Overhead == 0 != free {
					t.Fatalf("the queue counts %+v", n)
				}
				counted := n.Overhead + n.Length()*fdbpq.ItemBytes
				if got := int64(f.bytes() - empty); got > mostRows*counted || got < counted {
					t.Errorf("%s items count %d bytes and take %d, %.2f times as many: the page says up to %d", state, counted, got, float64(got)/float64(counted), mostRows)
				}
			}
			f.update(func(tx kv.Tx) error {
				for _, id := range ids {
					if _, err := q.Move(tx, id, -1<<40); err != nil {
						return err
					}
				}
				return nil
			})
			check("ready")
			holders := slices.Repeat([]string{strings.Repeat("h", fdbpq.MaxHolder)}, n)
			f.update(func(tx kv.Tx) error {
				popped, err := q.Lease(tx, fdbpq.Selection{End: fdbpq.Min, Limit: n, Holders: holders}, time.Minute)
				if err == nil && len(popped.Items) != n {
					err = fmt.Errorf("%d items are leased", len(popped.Items))
				}
				return err
			})
			check("leased")
		})
	}
}

// longestItem is an item with the longest texts that an item without content may have.
func longestItem(number int) fdbpq.Import {
	now := time.Unix(1_800_000_000, 0)
	item := fdbpq.Import{
		Priority: 1 << 40, Pushed: now, Expires: now.Add(time.Hour), Deliveries: 1000, Fence: 1 << 40, KeyFence: 1 << 40,
		Unique: strings.Repeat("u", fdbpq.MaxUnique-2) + fmt.Sprintf("%02d", number),
		Key:    strings.Repeat("k", fdbpq.MaxKey-2) + fmt.Sprintf("%02d", number),
		Dead: &fdbpq.DeadLetter{
			Reason: strings.Repeat("r", fdbpq.MaxAttemptReason), Origin: strings.Repeat("o", 64), OriginID: strings.Repeat("i", 40), At: now, Deliveries: 1000,
		},
	}
	attempt := fdbpq.Attempt{Holder: strings.Repeat("h", fdbpq.MaxHolder), Outcome: fdbpq.OutcomeNack, Reason: strings.Repeat("r", fdbpq.MaxAttemptReason)}
	for n := range 16 {
		attempt.N, attempt.Start, attempt.End = int64(980+n), now, now
		item.Attempts = append(item.Attempts, attempt)
	}
	return item
}
