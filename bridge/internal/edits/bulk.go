package edits

import (
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// Bulk is one page of a bulk operation, which changes the items of a queue that match a filter. It has a lane
// of its own, and transactions that it shares with nobody: others do not wait for it.
type Bulk struct {
	change
	page fdbpq.Bulk
	mark codec.BulkMark
	done fdbpq.BulkDone
}

func (b *Bulk) Read(*codec.Wire) (f *failure.Failure) {
	b.page, b.mark, f = codec.ReadBulk(b.Msg, &b.Subject)
	return f
}

// Act describes the request for the first page: the other pages follow by its cursor.
func (b *Bulk) Act() (done bool, details []any) {
	return !b.page.DryRun && b.page.After == nil, []any{"items", fdbpq.ReasonText(string(b.Msg.Data))}
}

// Apply does the page as far as it goes.
func (b *Bulk) Apply(at *desk.ChangeTx) (_ []fdbpq.Event, err error) {
	if b.done, err = at.Queue.Bulk(at.Tx, b.page); err != nil {
		return nil, b.did(nil, err)
	}
	if b.done.Err != nil {
		b.Failure = failure.Explain(b.done.Err)
		return nil, nil
	}
	answer := protocol.BulkAnswer{Done: b.done.Done, Looked: b.done.Looked}
	if b.done.Next != nil {
		answer.Next = b.mark.Cursor(b.done.Next)
	}
	if b.done.Stopped != nil {
		answer.Stopped = protocol.StoppedFull
	}
	return b.done.Events, b.did(answer, nil)
}

// changed is how many items the page has changed.
func (b *Bulk) changed() int {
	if b.page.DryRun {
		return 0
	}
	return b.done.Done
}
