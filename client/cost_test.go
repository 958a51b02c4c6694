package client_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// What a handler says of the cost goes with whatever ends the lease, and an extension before that reserves more. A delivery that comes
// back unused has cost nothing.
func TestSpent(t *testing.T) {
	t.Parallel()
	w := start(t)
	for name, c := range map[string]struct {
		spent    *int64
		end      func(*client.Item) error
		cost     int64 // of the tokens that are missing
		reserved int64 // that the settlement compares
	}{
		"without a word":    {nil, func(i *client.Item) error { return i.Ack(t.Context()) }, 100, 100},
		"more":              {new(int64(150)), func(i *client.Item) error { return i.Ack(t.Context()) }, 150, 100},
		"less":              {new(int64(7)), func(i *client.Item) error { return i.AckWith(t.Context(), []byte("x")) }, 7, 100},
		"nothing":           {new(int64(0)), func(i *client.Item) error { return i.Terminate(t.Context(), "no") }, 0, 100},
		"less than nothing": {new(int64(-5)), func(i *client.Item) error { return i.Nack(t.Context()) }, 0, 100},
		"more than it can":  {new(int64(math.MaxInt64)), func(i *client.Item) error { return i.GiveBack(t.Context(), "too long") }, 200, 100}, // it owes no more,
		"unused":            {new(int64(150)), func(i *client.Item) error { return i.GiveBack(t.Context(), "") }, 0, 0},
		"an extension":      {new(int64(150)), func(i *client.Item) error { return i.Extend(t.Context()) }, 150, 0},
		"and what ends it": {new(int64(150)), func(i *client.Item) error {
			err := i.Extend(t.Context())
			i.Spent(20)
			return errors.Join(err, i.Ack(t.Context()))
		}, 20, 150},
	} {
		t.Run(name, func(t *testing.T) {
			queue := w.client.Queue(strings.ReplaceAll(name, " ", "-"))
			if _, err := queue.Configure(t.Context(), client.ConfigChange{CostRate: new("100/24h")}); err != nil {
				t.Fatal(err)
			}
			if _, err := queue.Push(t.Context(), []byte("x"), client.Cost(100)); err != nil {
				t.Fatal(err)
			}
			item, err := queue.Pop(t.Context(), client.Min, client.Lease(time.Hour))
			if err != nil || item.Cost != 100 {
				t.Fatalf("popped %+v, %v, expected a cost of 100", item, err)
			}
			if c.spent != nil {
				item.Spent(*c.spent)
			}
			if err := c.end(item); err != nil {
				t.Fatal(err)
			}
			info, err := queue.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if info.CostTokens == nil || 100-*info.CostTokens != c.cost {
				t.Errorf("the queue has %v of 100 tokens, expected that %d are missing", info.CostTokens, c.cost)
			}
			if info.Cost == nil && c.reserved != 0 || info.Cost != nil && info.Cost.Reserved != c.reserved {
				t.Errorf("it compares %+v, expected %d that were reserved", info.Cost, c.reserved)
			}
		})
	}
}
