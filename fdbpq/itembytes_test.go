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

// mostItemBytes is how many times as many bytes as ItemBytes an item without content takes, as docs/protocol/admin.md and
// docs/tenants.md say.
const mostItemBytes = 16

// The rows of an item without content take less than the page says, whatever it has beside its content: the longest unique
// value, key and attempts, a death, a TTL, another priority, a lease with a holder, in a queue with the longest name.
func TestItemBytes(t *testing.T) {
	t.Parallel()
	f := fullStore(t)
	q := f.Queue(strings.Repeat("t", 64) + "." + strings.Repeat("q", 64))
	f.update(func(tx kv.Tx) error {
		_, err := q.Configure(tx, []byte(`{"key_limit":100,"key_order":true,"fair":"priority","attempts":16}`))
		return err
	})
	empty := f.bytes()
	const n = 20
	attempt := fdbpq.Attempt{Holder: strings.Repeat("h", fdbpq.MaxHolder), Outcome: fdbpq.OutcomeNack, Reason: strings.Repeat("r", fdbpq.MaxAttemptReason)}
	now := time.Unix(1_800_000_000, 0)
	var ids []fdbpq.ID
	f.update(func(tx kv.Tx) error {
		ids = nil
		for i := range n {
			item := fdbpq.Import{
				Priority: 1 << 40, Pushed: now, Expires: now.Add(time.Hour), Deliveries: 1000, Fence: 1 << 40, KeyFence: 1 << 40,
				Unique: strings.Repeat("u", fdbpq.MaxUnique-2) + fmt.Sprintf("%02d", i),
				Key:    strings.Repeat("k", fdbpq.MaxKey-2) + fmt.Sprintf("%02d", i),
				Dead: &fdbpq.DeadLetter{Reason: strings.Repeat("r", fdbpq.MaxAttemptReason), Origin: strings.Repeat("o", 64), OriginID: strings.Repeat("i", 40),
					At: now, Deliveries: 1000},
			}
			for n := range 16 {
				attempt.N, attempt.Start, attempt.End = int64(980+n), now, now
				item.Attempts = append(item.Attempts, attempt)
			}
			imported, err := q.Import(tx, item)
			if err != nil {
				return err
			}
			if imported[0].Err != nil {
				t.Fatal(imported[0].Err)
			}
			ids = append(ids, imported[0].ID)
		}
		return nil
	})
	check := func(state string) {
		if got := (f.bytes() - empty) / n; got > mostItemBytes*fdbpq.ItemBytes || got < (mostItemBytes-4)*fdbpq.ItemBytes {
			t.Errorf("a %s item takes %d bytes, the page says up to %d", state, got, mostItemBytes*fdbpq.ItemBytes)
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
	holders := slices.Repeat([]string{attempt.Holder}, n)
	f.update(func(tx kv.Tx) error {
		popped, err := q.Lease(tx, fdbpq.Selection{End: fdbpq.Min, Limit: n, Holders: holders}, time.Minute)
		if err == nil && len(popped.Items) != n {
			err = fmt.Errorf("%d items are leased", len(popped.Items))
		}
		return err
	})
	check("leased")
}
