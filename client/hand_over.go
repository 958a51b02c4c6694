package client

import (
	"context"

	"github.com/pqbridge/pqbridge/protocol"
)

// HandOver pushes an item to a queue and acknowledges this one, in one transaction: both take effect, or neither
// does. The hand_over of this item's queue has to name the other queue.
//
// After [ErrLeaseLost] nothing was pushed: another consumer has had the item, or will. After [ErrUnknownResult]
// call it again with the same [MsgID]. A second call without an id fails with [ErrLeaseLost] if the first took
// effect, and pushes nothing.
func (i *Item) HandOver(ctx context.Context, to *Queue, payload []byte, opts ...PushOption) (pushed Pushed, err error) {
	if !i.Leased() {
		return Pushed{}, ErrNotLeased
	}
	settle := func(p *push) { p.header.Set(protocol.HeaderSettle, i.ack.written) }
	err = i.once(func() (err error) {
		pushed, err = to.Push(ctx, payload, append(opts[:len(opts):len(opts)], settle)...)
		return err
	})
	return pushed, err
}
