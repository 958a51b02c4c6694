// Package client speaks to pqbridge's priority queues over NATS.
//
//	nc, err := nats.Connect(nats.DefaultURL)
//	c, err := client.New(nc)
//	jobs := c.Queue("jobs")
//
//	_, err = jobs.Push(ctx, []byte("put out the fire"), client.Priority(1))
//	item, err := jobs.Pop(ctx, client.Min, client.Lease(time.Minute))
//	err = item.Ack(ctx)
//
// Low priorities are urgent: [Min] is the end of the queue with the lowest number, [Max] the other end.
//
// # Retries
//
// A bridge refuses a request, and does nothing, if it is busy, restarts, or its store cannot commit. The client
// repeats such a request until the context ends. It repeats an unanswered request only if doing it twice has the
// same effect as doing it once: every push has an id for that, a pop has one with [Repeatable] or [PopID], and
// reads need none. A context without a deadline gets one of [Timeout].
//
// # Together
//
// Pushes at the same time go together, in one message for each queue, and so do settlements and the requests of a
// [Queue.Consume] for items. Nothing changes for their callers: each has its own result, error, context and place
// in the order, and a single call is sent at once. A call whose context ends before it was sent has no effect.
// [MaxBundle] bounds the messages, or turns bundling off.
//
// # Errors
//
// A request that fails returns an [*Error] with a code, a reason and a text. Compare it by errors.Is with the
// variables named Err…; every program meets [ErrEmpty]. A failed request has had no effect, except perhaps after
// [ErrUnknownResult].
//
// The client sends nothing on a connection whose user may not receive answers there, because a popped item would
// reach nobody: requests fail with code 403 until the connection has the user's inbox prefix
// (nats.CustomInboxPrefix). The first request of a connection waits for the server's word about that, further ones
// do not.
//
// Several goroutines may use a client, a queue or an item at the same time.
package client

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/lanes"
	"github.com/pqbridge/pqbridge/subjects"
)

// DefaultPrefix is the prefix of all subjects unless [Prefix] gives another one.
const DefaultPrefix = "pq"

// Client talks to the bridges behind a NATS connection. Get one from [New];
// one is enough for a connection.
type Client struct {
	nc       *nats.Conn
	grammar  subjects.Grammar
	acks     ackSubjects
	patience patience
	mailbox  *mailbox
	inFlight *inFlight
	settles  *lanes.Rights
	pushes   *pushes

	settlements *settlements
	denials     denials
}

// The defaults of a client's options.
const (
	DefaultTimeout  = 10 * time.Second
	DefaultInFlight = 4096
)

// Option configures a client.
type Option func(*options)

type options struct {
	prefix   string
	bridge   string // its prefix; "": the same
	patience patience
	inFlight int
	together int // calls in one message
	mixes    bool
}

// Prefix sets the prefix of the bridge's subjects; [DefaultPrefix] if not given.
func Prefix(prefix string) Option { return func(o *options) { o.prefix = prefix } }

// BridgePrefix sets the bridge's own prefix if the account imports the bridge's subjects
// under another prefix. Items have ack subjects with the bridge's prefix; the client
// replaces it by its own.
func BridgePrefix(prefix string) Option { return func(o *options) { o.bridge = prefix } }

// Timeout bounds operations whose context has no deadline; [DefaultTimeout] if
// not given.
func Timeout(d time.Duration) Option { return func(o *options) { o.patience.timeout = d } }

// RetryFor bounds how long the client repeats a request that was refused or had no
// responders. Without it the client repeats until the context ends, which bridges
// restarts. An interactive program may prefer an early error.
func RetryFor(d time.Duration) Option { return func(o *options) { o.patience.refused = d } }

// OnRefusal makes the client call f with the first refusal of each request that it then repeats, so that a program
// can say what it waits for. f must not call the client.
func OnRefusal(f func(error)) Option { return func(o *options) { o.patience.onRefusal = f } }

// MaxInFlight bounds the pushes that wait for their answers; further pushes wait. [DefaultInFlight] if not given. A
// bridge refuses more than 16,384 of all its clients together.
func MaxInFlight(n int) Option { return func(o *options) { o.inFlight = n } }

// MaxBundle bounds how many calls go in one message. [MaxMany] if not given; 1: each goes alone.
func MaxBundle(n int) Option { return func(o *options) { o.together = n } }

// MixPriorities says that the user of the connection may publish pq.<queue>.push, on all queues to which the
// program pushes. Otherwise pushes of several priorities go together only after the program has pushed to the queue
// without [Priority], because a user may lack that right.
func MixPriorities() Option { return func(o *options) { o.mixes = true } }

// New returns a client on a connection. The caller closes the connection.
func New(nc *nats.Conn, opts ...Option) (*Client, error) {
	o := options{
		prefix:   DefaultPrefix,
		patience: patience{timeout: DefaultTimeout, attempt: firstAttempt, margin: waitMargin, confirm: confirmWithin, extend: extensionsPerLease},
		inFlight: DefaultInFlight,
		together: MaxMany,
	}
	for _, opt := range opts {
		opt(&o)
	}
	grammar, err := subjects.New(o.prefix)
	if err != nil {
		return nil, err
	}
	acks := ackSubjects{own: grammar, bridge: grammar}
	if o.bridge != "" {
		if acks.bridge, err = subjects.New(o.bridge); err != nil {
			return nil, err
		}
	}
	c := &Client{
		nc:       nc,
		grammar:  grammar,
		acks:     acks,
		patience: o.patience,
		mailbox:  newMailbox(nc, acks),
		inFlight: newInFlight(max(1, o.inFlight)),
	}
	c.settles = lanes.NewRights(func() uint64 {
		n, _ := c.mailbox.connection()
		return n
	})
	most := min(max(1, o.together), MaxMany)
	c.pushes, c.settlements = newPushes(c, most, o.mixes), newSettlements(c, most)
	return c, nil
}

// Conn returns the client's connection.
func (c *Client) Conn() *nats.Conn { return c.nc }

// Queue returns the queue with this name, which need not exist: the first push creates
// it. With an invalid name every operation on it fails.
func (c *Client) Queue(name string) *Queue { return &Queue{client: c, name: name} }

// Queue is a queue with a name. Get one from [Client.Queue].
type Queue struct {
	client *Client
	name   string
}

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// subject returns the subject of a verb on the queue.
func (q *Queue) subject(s subjects.Subject) (string, error) {
	s.Queue = q.name
	return q.client.grammar.Build(s)
}

// bounded gives a context without a deadline one, for a request whose answer may wait for some time.
func (c *Client) bounded(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, addTime(wait, c.patience.timeout))
}

// maxInFlightBytes bounds the bytes of the pushes in flight: bridges accept 64 MiB from all their clients.
const maxInFlightBytes = 16 << 20

// inFlight bounds the pushes that were sent and not answered yet.
type inFlight struct {
	most int

	mu    sync.Mutex
	n     int
	bytes int
	fewer chan struct{} // closed when a push leaves; nil while no caller waits
}

func newInFlight(most int) *inFlight { return &inFlight{most: most} }

// acquire waits until there is room for a push.
func (f *inFlight) acquire(ctx context.Context, size int) error {
	return f.until(ctx, func() bool {
		fits := f.n < f.most && (f.bytes == 0 || f.bytes+size <= maxInFlightBytes)
		if fits {
			f.n++
			f.bytes += size
		}
		return fits
	})
}

// release gives the room back.
func (f *inFlight) release(size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	f.bytes -= size
	if f.fewer != nil {
		close(f.fewer)
		f.fewer = nil
	}
}

// flush waits until no push is in flight.
func (f *inFlight) flush(ctx context.Context) error {
	return f.until(ctx, func() bool { return f.n == 0 })
}

// until waits until is returns true. It calls is with the lock held.
func (f *inFlight) until(ctx context.Context, is func() bool) error {
	for {
		f.mu.Lock()
		if is() {
			f.mu.Unlock()
			return nil
		}
		if f.fewer == nil {
			f.fewer = make(chan struct{})
		}
		fewer := f.fewer
		f.mu.Unlock()
		select {
		case <-fewer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
