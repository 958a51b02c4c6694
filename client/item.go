package client

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// Item is an item as a bridge answered it. Settle a leased item: with [Item.Ack],
// [Item.Nack], [Item.NackWithDelay], [Item.GiveBack] or [Item.Terminate]. Until then [Item.Extend] or
// [Item.Hold] keep the lease.
type Item struct {
	Queue      string
	ID         string
	Priority   int64
	Key        string // "": none
	Payload    []byte
	Header     nats.Header // as it was pushed
	Deliveries int         // how often it was handed out with a lease, this time included
	Pushed     time.Time
	Pending    int64 // ready items behind it

	Endings // of its earlier leases

	// Fence grows with every lease of the item. The system to which the worker writes can refuse a fence lower than
	// the highest fence that it has seen.
	Fence uint64

	// KeyFence grows with every lease of all items of the key, if one item of the key at a time is leased, as under
	// key_order; otherwise, and without a key, it is 0.
	KeyFence uint64

	// State is set by [Queue.Get] only, and so is Due: when the lease of a leased item ends, or when a delayed item
	// is ready.
	State State
	Due   time.Time

	// WaitsFor is set by [Queue.Get] only: the reason for which a ready or delayed item is not handed out, as
	// docs/protocol/keys.md lists it.
	WaitsFor string

	// Explain is set by [Queue.Get] with [WithExplanation]: why the item is not handed out.
	Explain *Explain

	// Held is set by [Queue.Get] only: a link holds the item, which is leased without an end.
	Held bool

	// KeyAhead is set by [Queue.Get] only: how many ready items of its key are handed out
	// before a ready item, up to 10,000.
	KeyAhead int

	// Unique is set by [Queue.Get] only: no other item of the queue has this value.
	// UniqueUntil is [UntilLeased] or "".
	Unique      string
	UniqueUntil string

	// ResultTTL is set by [Queue.Get] only: for how long the queue keeps what becomes of the item; 0: not at all.
	ResultTTL time.Duration

	// Cost is what a delivery of the item costs by the word of its push, see [Cost]; 0: 1.
	Cost int64

	// Holder is set by [Queue.Get] only: the name that the holder of the lease has given itself, "" if it is not
	// known.
	Holder string

	// Attempts is set by [Queue.Get] only: the number of the last lease that ended without success. LastAttempts
	// are the attempts that the item remembers, [WithAttempts], the oldest first.
	Attempts     int64
	LastAttempts []Attempt

	// Progress is what the last holder that said anything has said of how far it is, with [Item.Report], and ProgressAt when: a worker goes
	// on from there. "": none has said anything, or the item leaves no room for it in a message.
	Progress   string
	ProgressAt time.Time

	// Backoff is how long a leased item stays away if Nack gives it back now; 0: the queue has
	// no backoff.
	Backoff time.Duration

	// Schedule is the schedule that has pushed the item, "" if none has, and ScheduledAt the time for which it did.
	Schedule    string
	ScheduledAt time.Time

	// Source is the message from which a source has made the item; nil: none has.
	Source *ItemSource

	// Dead is set for items of a dead-letter queue.
	Dead *Death

	ack   ackSubject // settles the lease; none without one
	queue *Queue
	term  time.Duration // of the lease as it was asked for; 0 when the queue decided

	confirms bool // the item is leased until it is acknowledged, and then popped for good

	mu      sync.Mutex
	expires time.Time
	settled bool
	spent   string // what the delivery has really cost, as a header has it; "": it is not known
}

// Endings say how earlier leases of an item ended.
type Endings = protocol.Endings

// Death says why and when an item came to a dead-letter queue, and from which queue.
type Death = protocol.Death

// State is the state of an item.
type State = protocol.State

// States of items.
const (
	Ready   = protocol.StateReady
	Leased  = protocol.StateLeased
	Delayed = protocol.StateDelayed
)

// Leased reports whether the item has a lease.
func (i *Item) Leased() bool { return i.ack.own != "" }

// LeaseExpires returns when the lease runs out, by the bridge's clock. An extension
// changes it.
func (i *Item) LeaseExpires() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.expires
}

// readItem reads an answer that is an item.
func readItem(q *Queue, m *nats.Msg) (*Item, error) {
	i := &Item{Queue: q.name, Payload: m.Data, Header: make(nats.Header), ack: q.client.acks.leaseOf(q.name, m), queue: q}
	if !i.Leased() && (m.Reply != "" || m.Header[protocol.HeaderAck] != nil) {
		return nil, fmt.Errorf("%s is %q, the reply subject %q: expected one that settles a lease of queue %s",
			protocol.HeaderAck, strings.Join(m.Header[protocol.HeaderAck], ", "), m.Reply, q.name)
	}
	for key, values := range m.Header {
		switch {
		case key != protocol.HeaderTimeStamp && !strings.HasPrefix(key, protocol.HeaderPrefix):
			i.Header[key] = values
		default:
			if err := i.readOur(key, values); err != nil && needed[key] {
				return nil, err
			}
		}
	}
	return i, nil
}

// needed are the headers that identify the item and its lease. If any other header cannot be read, it counts as
// missing: it must not cost the caller the item.
var needed = func() map[string]bool {
	all := make(map[string]bool)
	for _, h := range protocol.ItemHeaders {
		all[h.Name] = h.Needed
	}
	return all
}()

func (i *Item) readOur(key string, values []string) error {
	if to := fieldOf(i, key); to != nil {
		return readHeader(key, values, to)
	}
	switch key {
	case protocol.HeaderNumPending:
		return readHeader(key, values, &i.Pending)
	case protocol.HeaderExplain:
		return i.readExplanation(values)
	case protocol.HeaderHeld:
		i.Held = true
	case protocol.HeaderAttempts:
		return i.readAttempts(values)
	case protocol.HeaderLeaseExpires:
		if err := readHeader(key, values, &i.expires); err != nil {
			return err
		}
		i.Due = i.expires
	case protocol.HeaderConfirm:
		i.confirms = true
	default:
		var text string
		err := readHeader(key, values, &text)
		if err == nil {
			i.Source, err = protocol.ReadItemSource(i.Source, key, text) // which leaves a later version's headers alone
		}
		return err
	}
	return nil
}

// deathOf is the part of an item that says how it became a dead letter.
func deathOf(i *Item) *Death {
	if i.Dead == nil {
		i.Dead = new(Death)
	}
	return i.Dead
}

// readHeader reads a header of ours.
func readHeader(key string, values []string, to any) error {
	if len(values) != 1 {
		return fmt.Errorf("header %s occurs %d times: expected once", key, len(values))
	}
	if err := protocol.ReadValue(to, values[0]); err != nil {
		return fmt.Errorf("header %s: %w", key, err)
	}
	return nil
}
