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
// Low priorities are urgent: [Min] is the end of the queue with the lowest
// number, [Max] the other one.
//
// # What is repeated
//
// What a bridge refuses without having done anything (it is busy, restarting,
// its store cannot commit right now) is sent again until the context ends. What
// stays unanswered is sent again only when that cannot do it twice: pushes carry
// an id of their own for that, pops do when asked to with [Repeatable], and
// whatever only looks can be repeated as it is. A context without a deadline is
// given one of [Timeout].
//
// # Errors
//
// What a bridge answers is an [*Error] with its code, its reason and a text.
// Tell them apart with errors.Is and the errors named Err…: [ErrEmpty] is the
// one that every program meets. An error with [ErrUnknownResult] is the only one
// after which the request may have been carried out.
//
// Clients, queues and items may be used by several goroutines at a time.
package client

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/subjects"
)

// DefaultPrefix is what subjects begin with unless [Prefix] says otherwise.
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
}

// patience says how long things may take.
type patience struct {
	timeout time.Duration // of an operation whose context has no deadline
	refused time.Duration // how long a refused request is sent again; 0: as long as the context lets
	attempt time.Duration // how long to wait for an answer before asking again, at first
	margin  time.Duration // for the answer to a waiting pop to arrive before the context ends
	extend  int           // into how many parts a lease is divided, each of which ends with an extension
}

// The defaults of a client's options.
const (
	DefaultTimeout  = 10 * time.Second
	DefaultInFlight = 4096

	firstAttempt = 2 * time.Second
)

// Option changes how a client works.
type Option func(*options)

type options struct {
	prefix   string
	bridge   string // its prefix; "": the same
	patience patience
	inFlight int
}

// Prefix is what the bridge's subjects begin with; [DefaultPrefix] if not given.
func Prefix(prefix string) Option { return func(o *options) { o.prefix = prefix } }

// BridgePrefix is the prefix as the bridge has it, where the account imports the bridge's
// subjects under another one. Items name the subjects of their leases as the bridge
// knows them; the client settles under its own prefix.
func BridgePrefix(prefix string) Option { return func(o *options) { o.bridge = prefix } }

// Timeout bounds operations whose context has no deadline; [DefaultTimeout] if
// not given.
func Timeout(d time.Duration) Option { return func(o *options) { o.patience.timeout = d } }

// RetryFor bounds for how long a request that was refused, or that nobody was
// there to receive, is sent again. If not given, that is done until the context
// ends, which rides out restarts; a program with somebody waiting in front of it
// may rather want to be told.
func RetryFor(d time.Duration) Option { return func(o *options) { o.patience.refused = d } }

// MaxInFlight bounds how many pushes wait for their answers at a time; further
// ones wait for them. [DefaultInFlight] if not given. Bridges refuse more than
// 16,384 of all their clients together.
func MaxInFlight(n int) Option { return func(o *options) { o.inFlight = n } }

// New returns a client on a connection, which stays the caller's to close.
func New(nc *nats.Conn, opts ...Option) (*Client, error) {
	o := options{
		prefix:   DefaultPrefix,
		patience: patience{timeout: DefaultTimeout, attempt: firstAttempt, margin: waitMargin, extend: extensionsPerLease},
		inFlight: DefaultInFlight,
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
	return &Client{
		nc:       nc,
		grammar:  grammar,
		acks:     acks,
		patience: o.patience,
		mailbox:  newMailbox(nc, acks),
		inFlight: newInFlight(max(1, o.inFlight)),
	}, nil
}

// Conn is the connection that the client was made with.
func (c *Client) Conn() *nats.Conn { return c.nc }

// Queue returns the queue with this name, whether it exists or not: it comes to
// be with the first push. A name against the rules fails in what is done with it.
func (c *Client) Queue(name string) *Queue { return &Queue{client: c, name: name} }

// Queue is a queue by its name. Get one from [Client.Queue].
type Queue struct {
	client *Client
	name   string
}

// Name is the queue's name.
func (q *Queue) Name() string { return q.name }

// subject returns the subject of a verb on the queue.
func (q *Queue) subject(s subjects.Subject) (string, error) {
	s.Queue = q.name
	return q.client.grammar.Build(s)
}

// bounded gives a context that has no deadline one.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.patience.timeout)
}
