package client

import (
	"context"
	"errors"

	"github.com/pqbridge/pqbridge/protocol"
)

// AckMany acknowledges items of the queue, up to [MaxMany] in one message, and returns what
// [Item.Ack] would return for each, or nil if all of them are gone for good.
func (q *Queue) AckMany(ctx context.Context, items ...*Item) []error {
	errs := make([]error, len(items))
	var all []*settling
	of := make([]int, 0, len(items)) // the item of each
	for i, item := range items {
		switch {
		case item.ack == "":
			errs[i] = ErrNotLeased
		case !item.beginSettle():
			errs[i] = ErrSettled
		default:
			all, of = append(all, &settling{item: item, op: "ack", body: protocol.SettleAck}), append(of, i)
		}
	}
	failed := len(all) < len(items)
	for start := 0; start < len(all); start += MaxMany {
		q.settleMany(ctx, all[start:min(len(all), start+MaxMany)])
	}
	for k, s := range all {
		_, err := s.result(ctx)
		errs[of[k]] = items[of[k]].endSettle(err)
		failed = failed || err != nil
	}
	if !failed {
		return nil
	}
	return errs
}

// settleMany settles leases by one message, or has each of them go in a message of its own.
func (q *Queue) settleMany(ctx context.Context, all []*settling) {
	if len(all) == 1 {
		all[0].again = true
		return
	}
	r := &call{op: "ack", queue: q.name}
	var err error
	if r.subject, r.header, r.body, err = bundled(q.client, q.name, all); err == nil {
		err = q.sendMany(ctx, r, all)
	}
	var e *Error
	tooLarge := errors.As(err, &e) && e.Code == protocol.CodeTooLarge
	for _, s := range all {
		if tooLarge {
			s.again = true
		} else if err != nil {
			s.err = err
		}
	}
}

func (q *Queue) sendMany(ctx context.Context, r *call, all []*settling) error {
	m, err := q.client.do(ctx, r)
	if err != nil {
		return err
	}
	results, err := results(q.name, m, len(all))
	if err != nil {
		return err
	}
	for i, s := range all {
		s.read(results[i], r.sent-r.answered)
	}
	return nil
}
