package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

// txTimeout is how long a transaction may take, reruns included, before its
// requests are answered that the store does not commit. Clients wait 5 s by
// habit (the default of nats.go's JetStream), so the answer should come first.
const txTimeout = 4 * time.Second

// txTimeoutDown is the same while the store is known to fail: requests have already
// waited while others failed.
const txTimeoutDown = time.Second

// lane is what the work on one queue needs, whatever the kind.
type lane struct {
	*request.Responder
	*codec.Wire
	store    *fdbpq.Store
	keeper   *keeper
	limits   Limits
	patience batch.Patience
	slow     time.Duration                 // see slowBatch; 0: that
	room     func(bytes int) error         // see Options
	line     time.Duration                 // batch.Limits.Wait
	since    func(time.Time) time.Duration // time.Since, but in tests
	giveBack func(fdbpq.Lease)             // returns an item that did not reach its consumer
	sent     *listening.Sent
	setBusy  func(bool) // a transaction is under way
	shared   *batch.Shared[kv.Tx]

	queue fdbpq.Queue

	// Buffers of answers.
	out    []byte
	lines  []byte
	header codec.HeaderWriter
}

// Begin turns to a queue.
func (l *lane) Begin(queue string) { l.queue = l.store.Queue(queue) }

// Common reports whether the store caused an error, and not one request.
func (l *lane) Common(err error) bool {
	var f *failure.Failure
	return failure.IsOutage(err) || errors.As(err, &f) && f.Reason == protocol.ReasonStoreFull
}

// update runs a job on the lane's queue in a transaction that takes effect exactly once.
func (l *lane) update(job batch.Job[kv.Tx]) (err error) {
	job.Key = l.queue.Name()
	ctx, cancel := l.timeout()
	defer cancel()
	l.Limit.Refresh()
	l.setBusy(true)
	defer l.setBusy(false)
	err = l.shared.Update(ctx, job)
	l.keeper.notice(err)
	return err
}

// view runs fn on one state of the store.
func (l *lane) view(fn func(kv.Reader) error) error {
	ctx, cancel := l.timeout()
	defer cancel()
	l.Limit.Refresh()
	err := l.store.View(ctx, fn)
	l.keeper.noticeRead(err)
	return err
}

// itemRows is about what an item takes in the store beside its content.
const itemRows = 512

// receiving is the queue of the lane for new items, of this many bytes. While the store takes
// none, it refuses them for the reason full, and still recognizes those that it has.
func (l *lane) receiving(items, bytes int) (queue fdbpq.Queue, full error) {
	if err := l.room(bytes + items*itemRows); err != nil {
		full = &failure.Failure{Code: 429, Text: err.Error(), Reason: protocol.ReasonStoreFull}
		return l.queue.Full(full), full
	}
	return l.queue, nil
}

// waited is how long a request has waited.
func (l *lane) waited(w work) time.Duration { return l.since(w.Head().Arrived) }

func (l *lane) timeout() (context.Context, context.CancelFunc) {
	d := txTimeout
	if l.keeper.ready() != nil {
		d = txTimeoutDown
	}
	return context.WithTimeout(context.Background(), d)
}

// errStuck: the result of a commit has been unknown for too long.
var errStuck = fmt.Errorf("%w: a transaction does not end", kv.ErrUnavailable)
