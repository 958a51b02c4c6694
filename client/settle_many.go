package client

import (
	"context"
	"slices"

	"github.com/pqbridge/pqbridge/protocol"
)

// AckMany acknowledges items of the queue, up to [MaxMany] in one message, and returns what
// [Item.Ack] would return for each, or nil if all of them are gone for good.
func (q *Queue) AckMany(ctx context.Context, items ...*Item) []error {
	errs := make([]error, len(items))
	var all []*settling
	for i, item := range items {
		switch {
		case !item.Leased():
			errs[i] = ErrNotLeased
		case !item.beginSettle():
			errs[i] = ErrSettled
		default:
			all = append(all, &settling{item: item, op: "ack", body: protocol.SettleAck, ended: func(_ string, err error) {
				errs[i] = item.endSettle(err)
			}})
		}
	}
	for some := range slices.Chunk(all, MaxMany) {
		q.client.settlements.settleMany(ctx, q.name, some)
	}
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return errs
	}
	return nil
}
