package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// Handler handles an item. If it returns nil, the item is acknowledged. If it returns an
// error or panics, the item is given back and delivered again later; see [RetryAfter] and
// [GiveUp]. It may also settle the item itself, such as with [Item.AckWith], which says what came of the work; see [Work] for handlers that
// return that.
//
// The lease is extended while the handler runs. If it is lost all the same, ctx
// ends with [ErrLeaseLost] as its cause, and with [ErrCancelled] if the item was cancelled. A bridge tells of a lease that somebody else has
// ended at once, if the user of the connection may subscribe to the events of the queue, and otherwise with the next extension.
type Handler func(ctx context.Context, item *Item) error

// ConsumeOptions configure [Queue.Consume]. The zero value suits many programs.
type ConsumeOptions struct {
	// Workers is how many handlers run at a time; 0: one. While the item of a worker is settled it
	// may have a lease of the next one already, which it begins with afterwards.
	Workers int

	// End is the end of the queue from which items are popped.
	End End

	// Lease is the length of leases, and how long an item stays with a program that has
	// died; 0: 30 s. The lease is extended while the handler runs.
	Lease time.Duration

	// Pop has options for the pops, such as a [Band].
	Pop []PopOption

	// Limit ends Consume after this many items; 0: no limit.
	Limit int

	// StopWhenEmpty ends Consume when the queue has no ready item, instead of waiting.
	StopWhenEmpty bool

	// Holder is the text that the leases show as their holder; "": <host>-<process id>.
	Holder string

	// Backoff returns the delay before the next delivery of a failed item, given how often it has
	// failed, this time included; nil: what the backoff of the queue says, [DefaultBackoff] if it has none.
	Backoff func(failures int) time.Duration

	// Grace is how long handlers may continue after the context has ended, before their
	// own contexts end; 0: as long as they need.
	Grace time.Duration

	// OnError gets the errors that handlers return, and the errors of pops and settlements,
	// with the item if there is one; nil: the standard logger writes them. A pop for several workers fails once. An [ErrNotFound]
	// without an item says that the queue does not exist when Consume begins, which goes on and waits for its first push. Several
	// goroutines may call OnError at the same time.
	OnError func(item *Item, err error)
}

// DefaultBackoff returns a second after the first failure, twice as long after each further one, and 5 minutes at
// most. Each delay is somewhat longer or shorter, so that items that failed together are not tried again together.
func DefaultBackoff(failures int) time.Duration {
	return backoff(failures, time.Second, 5*time.Minute)
}

// RetryAfter returns an error for a [Handler] to return: the item is delivered again
// after d.
func RetryAfter(d time.Duration, err error) error { return &retryError{d, err} }

type retryError struct {
	after time.Duration
	err   error
}

func (e *retryError) Error() string { return fmt.Sprintf("%v (again in %s)", e.err, e.after) }
func (e *retryError) Unwrap() error { return e.err }

// GiveUp returns an error for a [Handler] to return: the item goes to the dead-letter
// queue, because trying again would not help.
func GiveUp(err error) error { return &giveUpError{err} }

type giveUpError struct{ err error }

func (e *giveUpError) Error() string { return e.err.Error() }
func (e *giveUpError) Unwrap() error { return e.err }

// PanicError is the error that OnError gets when a handler panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v\n%s", e.Value, e.Stack) }

const (
	defaultLease = 30 * time.Second

	// consumeWait is how long one request waits for an item. It also bounds the time until the client notices that
	// a bridge has died.
	consumeWait = 30 * time.Second

	// Pauses after a pop that fails.
	firstTrouble = 100 * time.Millisecond
	lastTrouble  = 10 * time.Second
)

// Consume leases items and runs the handler on each until ctx ends, or until the options end it. Then it pops no
// more, gives back items that no handler has begun with, waits for the handlers, settles their items, and returns
// nil. If a handler fails because [ConsumeOptions.Grace] is over, its item is given back, too, and that counts as
// no failure. Consume returns an error if it cannot continue: the queue's name or an option is wrong, or the
// connection was closed.
func (q *Queue) Consume(ctx context.Context, handle Handler, o ConsumeOptions) error {
	return q.consume(ctx, handle.work(), o)
}

// work handles an item, and returns what came of it; nil: nothing for the caller.
type work func(ctx context.Context, item *Item) ([]byte, error)

func (h Handler) work() work {
	return func(ctx context.Context, item *Item) ([]byte, error) { return nil, h(ctx, item) }
}

func (q *Queue) consume(ctx context.Context, handle work, o ConsumeOptions) error {
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	if o.OnError == nil {
		o.OnError = func(item *Item, err error) { logError(q.name, item, err) }
	}
	if _, err := q.pop(o.End, "pop"); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	if o.Grace > 0 {
		work, cut = outlasting(ctx, o.Grace)
		defer cut()
	}
	c := &consumer{queue: q, handle: handle, options: o, ctx: ctx, work: work, stop: stop, left: int64(o.Limit)}
	if o.Limit <= 0 {
		c.left = math.MaxInt64
	}
	waits := &inbox{mailbox: q.client.mailbox}
	defer context.AfterFunc(ctx, waits.close)()
	pops := c.popOptions(waits)
	c.bells = q.listen(holderOf(pops))
	defer c.bells.stop()
	c.asks = newAsks(c, pops)
	var workers sync.WaitGroup
	for range max(1, o.Workers) {
		workers.Go(c.run)
	}
	workers.Wait()
	waits.close()
	q.client.endWaits(ctx)
	var fatal *fatalError
	if errors.As(context.Cause(ctx), &fatal) {
		return fatal.err
	}
	return nil
}

// outlasting returns a context with the values of ctx that ends some time after ctx has.
func outlasting(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(by, cancel)
		context.AfterFunc(lasting, func() { timer.Stop() })
	})
	return lasting, func() { stop(); cancel() }
}

// endWaits gives back items that arrive too late for waits. It does not depend on ctx, which may have ended.
func (c *Client) endWaits(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.patience.timeout)
	defer cancel()
	c.mailbox.awaitEnds(ctx)
}

// consumer is the state that the workers of a Consume share.
type consumer struct {
	queue   *Queue
	handle  work
	options ConsumeOptions
	ctx     context.Context // of taking items
	work    context.Context // of handling them, which ends later
	stop    context.CancelCauseFunc
	asks    *asks
	bells   *bells

	mu   sync.Mutex
	left int64 // items that may still be taken
}

// claim reports whether one more item may be popped within the limit. If the pop gets none,
// unclaim reverts claim.
func (c *consumer) claim() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		return false
	}
	c.left--
	return true
}

func (c *consumer) unclaim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left++
}

// fatalError ends a Consume.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }

// popOptions are the options of all pops.
func (c *consumer) popOptions(waits *inbox) []PopOption {
	options := []PopOption{Lease(c.options.Lease), func(r *popRequest) { r.inbox = waits }}
	if !c.options.StopWhenEmpty {
		options = append(options, Wait(consumeWait))
	}
	options = append(options, Holder(cmp.Or(c.options.Holder, defaultHolder)))
	return append(options, c.options.Pop...)
}

// holderOf is the holder that pops with some options have.
func holderOf(pops []PopOption) string {
	var r popRequest
	for _, set := range pops {
		set(&r)
	}
	return r.Holder
}

// run is the loop of a worker. The settlement of an item and the request for the next one leave at the same time,
// and the next handler begins when both are answered.
func (c *consumer) run() {
	troubles := 0
	var settled <-chan struct{} = closed
	for c.ctx.Err() == nil && c.claim() {
		got := c.asks.ask(settled)
		err := got.err
		if err == nil {
			troubles = 0
			settled = c.begin(got.item, settled)
			continue
		}
		<-settled
		c.unclaim()
		switch {
		case c.ctx.Err() != nil:
			continue
		case isFatal(err):
			c.stop(&fatalError{err})
			continue
		case c.options.StopWhenEmpty && errors.Is(err, ErrEmpty):
			if got.early {
				continue // the settlement may have made an item ready
			}
			return
		case got.look && errors.Is(err, ErrEmpty):
			troubles = 0
			if isAbsent(err) && !got.told {
				c.options.OnError(nil, &absentError{c.queue.name})
			}
			continue
		case hasCode(err, protocol.CodeTimeout):
			troubles = 0 // no item arrived, and the bridge answers
			continue
		}
		troubles++
		if !got.told {
			c.options.OnError(nil, err)
		}
		_ = pause(c.ctx, backoff(troubles, firstTrouble, lastTrouble)) // the loop looks at c.ctx
	}
	<-settled
}

// closed is a closed channel, for a worker that waits for nothing.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// isFatal reports whether a retry would never succeed.
func isFatal(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Code == protocol.CodeBadRequest || e.Code == protocol.CodeForbidden
	}
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrConnectionDraining)
}

// absentError says that the queue of a Consume does not exist yet.
type absentError struct{ queue string }

func (e *absentError) Error() string {
	return fmt.Sprintf("queue %s does not exist yet: Consume waits for its first push", e.queue)
}

func (e *absentError) Is(target error) bool { return target == ErrNotFound }

func isAbsent(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == ReasonUnknown
}

// logError is OnError where a program has none.
func logError(queue string, item *Item, err error) {
	if item == nil {
		log.Printf("consume %s: %v", queue, err)
		return
	}
	log.Printf("consume %s: item %s, delivery %d: %v", queue, item.ID, item.Deliveries, err)
}

// begin serves an item when the previous item is settled. It extends the lease meanwhile.
func (c *consumer) begin(item *Item, before <-chan struct{}) (settled <-chan struct{}) {
	held, release := item.hold(c.work, c.bells)
	<-before
	return c.serve(held, item, release)
}

// serve runs the handler on an item and begins to settle the item. It does not run the handler if Consume has ended
// since the pop, or if the lease has: then another client has the item. The channel is closed when the item is
// settled.
func (c *consumer) serve(held context.Context, item *Item, release func()) (settled <-chan struct{}) {
	defer release()
	switch lost := context.Cause(held); {
	case c.ctx.Err() != nil:
		release()
		if err := item.GiveBack(context.WithoutCancel(c.ctx), ""); err != nil {
			c.options.OnError(item, err)
		}
		return closed
	case errors.Is(lost, ErrLeaseLost):
		c.unclaim()
		c.options.OnError(item, lost)
		return closed
	}
	value, err := c.call(held, item)
	lost := context.Cause(held)
	release()
	switch {
	case err != nil:
		c.options.OnError(item, gaveUp(err, lost))
	case errors.Is(lost, ErrCancelled) && !item.isSettled():
		c.options.OnError(item, lost)
	}
	// A late acknowledgement still takes effect if no other consumer has got the item.
	if item.isSettled() || errors.Is(lost, ErrCancelled) || err != nil && errors.Is(lost, ErrLeaseLost) {
		return closed
	}
	return c.settle(item, value, err)
}

// settle settles an item by its handler's result. It does not depend on ctx, which may have
// ended.
func (c *consumer) settle(item *Item, value []byte, result error) (settled <-chan struct{}) {
	op, word, err := c.settlement(item, result)
	if err != nil {
		c.options.OnError(item, err)
		return closed
	}
	one := &settling{item: item, op: op, body: word}
	if result == nil && value != nil {
		one.body, one.result = ackWord(value), true
	}
	done := make(chan struct{})
	ctx := context.WithoutCancel(c.ctx)
	item.settleLater(ctx, one, func(err error) {
		if err == nil {
			close(done)
			return
		}
		go func() { // which may take its time
			defer close(done)
			c.options.OnError(item, err)
			if one.result && errors.Is(err, ErrTooLarge) {
				c.tooLarge(ctx, item, err)
			}
		}()
	})
	return done
}

// tooLarge ends an item whose work is done, and whose value nobody can keep: it would be as large another time.
func (c *consumer) tooLarge(ctx context.Context, item *Item, why error) {
	if err := item.Terminate(ctx, "the returned value is too large: "+why.Error()); err != nil {
		c.options.OnError(item, err)
	}
}

// settlement is the settlement for the result of a handler.
func (c *consumer) settlement(item *Item, err error) (op, word string, _ error) {
	var retry *retryError
	var giveUp *giveUpError
	nack := NackOptions{}
	switch {
	case err == nil:
		return "ack", protocol.SettleAck, nil
	case errors.As(err, &giveUp):
		return "terminate", terminateWord(giveUp.Error()), nil
	case errors.As(err, &retry):
		nack.Delay = &retry.after
	case c.work.Err() != nil:
		return "give back", backWord("stopped"), nil // by the end of Consume, and not because of the item
	default:
		nack.Delay = c.delay(item)
	}
	nack.Reason = err.Error()
	word, failed := nackWord(nack)
	return "nack", word, failed
}

// delay is how long a failed item stays away, nil if its queue decides that.
func (c *consumer) delay(item *Item) *time.Duration {
	failures := item.Deliveries - int(item.Interruptions+item.Returns)
	switch {
	case c.options.Backoff != nil:
		return new(c.options.Backoff(failures))
	case item.Backoff > 0:
		return nil
	}
	return new(DefaultBackoff(failures))
}

// call calls the handler.
func (c *consumer) call(ctx context.Context, item *Item) (value []byte, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			value, err = nil, &PanicError{Value: panicked, Stack: debug.Stack()}
		}
	}()
	return c.handle(ctx, item)
}
