package client

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go"

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
	results := make([]error, 0, len(all))
	for some := range slices.Chunk(all, MaxMany) {
		results = append(results, q.settleMany(ctx, some)...)
	}
	for k, i := range of {
		errs[i] = items[i].endSettle(results[k])
		failed = failed || errs[i] != nil
	}
	if !failed {
		return nil
	}
	return errs
}

// settleMany settles leases by one message, or each by a message of its own if they do not fit.
func (q *Queue) settleMany(ctx context.Context, all []*settling) []error {
	errs := make([]error, len(all))
	m, before, err := q.sendMany(ctx, all)
	var e *Error
	if errors.As(err, &e) && e.Code == protocol.CodeTooLarge || len(all) == 1 {
		for i, s := range all {
			errs[i] = s.item.send(ctx, s.op, s.body, 0)
		}
		return errs
	}
	var lines []string
	if err == nil {
		if lines, e = results(q.name, m, len(all)); e != nil {
			err = e
		}
	}
	for i, s := range all {
		if errs[i] = err; err == nil {
			errs[i] = s.finish(ctx, lines[i], before)
		}
	}
	return errs
}

// sendMany settles leases by one message. before is how many attempts may have taken effect beside the answered one.
func (q *Queue) sendMany(ctx context.Context, all []*settling) (m *nats.Msg, before int, err error) {
	if len(all) == 1 {
		return nil, 0, nil
	}
	r := &call{op: "ack", queue: q.name}
	if r.subject, r.header, r.body, err = bundled(q.client, q.name, all); err != nil {
		return nil, 0, err
	}
	m, err = q.client.do(ctx, r)
	return m, r.sent - r.answered, err
}

// finish returns the error of a settlement by its part of the answer. What may succeed later it sends again, alone.
func (s *settling) finish(ctx context.Context, result string, before int) error {
	_, e := s.read(result)
	switch {
	case e == nil, e.Code == protocol.CodeLeaseLost && before > 0 && held(s.op, e.Reason):
		return nil
	case !e.again(true):
		return e
	case e.Code == protocol.CodeUnknownResult:
		before++
	}
	return s.item.send(ctx, s.op, s.body, before)
}
