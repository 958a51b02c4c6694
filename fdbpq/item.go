package fdbpq

import (
	"cmp"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Item is an item that a pop or a peek returns.
type Item struct {
	ID         ID
	Seq        int64 // number in push order
	Priority   int64
	Key        string // which may be empty
	Payload    []byte
	Headers    []byte
	Size       int64 // bytes of headers and payload
	Pushed     time.Time
	Expires    int64 // store time at which its TTL ends; 0: never
	Deliveries int64 // how often it was handed out with a lease, this time included
	Endings
	Dead  *DeadLetter
	Lease *Lease // not of an item that was popped for good

	ResultTTL time.Duration // for how long its queue keeps what becomes of it; 0: not at all
	Cost      int64         // of a delivery, as its push has said; 0: 1

	Progress   string    // what the last holder that said anything has said of how far it is
	ProgressAt time.Time // by the wall clock of the process that has heard it; zero: not known
}

// itemOf is an item as a pop or a peek returns it, without its lease.
func itemOf(f *layout.Item) (Item, error) {
	seq, err := f.Place.Count()
	if err != nil {
		return Item{}, err
	}
	item := Item{
		ID:         idOf(f),
		Seq:        seq,
		Priority:   f.Place.Priority,
		Key:        f.Envelope.Key,
		Payload:    f.Envelope.Payload,
		Headers:    f.Envelope.Headers,
		Size:       f.Envelope.Size,
		Pushed:     time.Unix(0, f.Envelope.PushedAt),
		Deliveries: f.Deliveries(),
		Endings:    endingsOf(f),
		Dead:       shownDead(f),
		Expires:    f.Envelope.Expires,
		ResultTTL:  f.Envelope.Asks.TTL(),
		Cost:       f.Envelope.Cost,
		Progress:   f.Envelope.Progress,
		ProgressAt: reportedAt(&f.Envelope.Past),
	}
	return item, nil
}

// StoredItem is an item of a queue, in whatever state.
type StoredItem struct {
	Item
	State State
	Due   int64 // store time at which a lease or a delay ends; 0 when ready, held, or dying
	Since int64 // of a leased item: store time when its lease began, or when it died; 0: held
	Held  bool  // leased without an end, see Hold
	Dying bool  // it is dead, and waits for room in the store to become a dead letter: nobody has it
	Fence int64 // number of leases, returned ones included

	KeyFence int64 // of the last lease, 0 without a fence of the key

	// WaitsFor says why Get's item is not handed out, "" if its turn comes when those in
	// front of it are gone, or if it is leased.
	WaitsFor WaitsFor

	// KeyAhead is how many ready items of the key are handed out before Get's item, which is
	// ready, up to MaxKeyCount.
	KeyAhead int

	Holder   string // of a leased item: the name that its holder gave itself, which may be empty
	Attempts Attempts
	Cause    string // of its last failure, as far as its holder gave a reason

	Unique            string // that no other item of the queue has; "" without a claim, or after its end
	UniqueUntilLeased bool   // the first lease ends the claim
}

// State is the state of an item.
type State string

const (
	StateReady   State = State(layout.StateReady)
	StateLeased  State = State(layout.StateLeased)
	StateDelayed State = State(layout.StateDelayed)
)

// Why an item became a dead letter, unless Terminate gave another reason.
const (
	DeadMaxDeliveries = "max_deliveries"
	DeadInterruptions = "interruptions"
	DeadExpired       = "expired"
	DeadTerminated    = "terminated"
)

// DeadLetter says which queue a dead letter came from, by its own name, why and when.
type DeadLetter struct {
	Reason, Origin, OriginID string

	At         time.Time // by the wall clock of the process that buried it
	Deliveries int64     // that it had in its queue

	Interruptions int64 // that it had there
}

// cause is why an item failed: the reason of its last attempt. A dead letter that did not die of an attempt, or
// whose last attempt gave no reason, has the reason of its death.
func (d DeadLetter) cause(attempts Attempts) string {
	if d.Reason != "" && d.Reason != DeadMaxDeliveries && d.Reason != DeadInterruptions {
		return d.Reason
	}
	return cmp.Or(attempts.reason(), d.Reason)
}

// shownDead is how a dead letter died, nil for other items.
func shownDead(l *layout.Item) *DeadLetter {
	if !l.IsDead() || l.Dying() {
		return nil
	}
	return (*DeadLetter)(&l.Dead)
}

// WaitsFor is what keeps an item from being handed out.
type WaitsFor string

const (
	WaitsForDelay    WaitsFor = "delay"         // it is delayed
	WaitsForPause    WaitsFor = "pause"         // its queue or its key is paused
	WaitsForRate     WaitsFor = "rate"          // the rate of its queue allows no delivery now
	WaitsForKeyOrder WaitsFor = "key_order"     // another item of its key comes first
	WaitsForKeyLimit WaitsFor = "key_limit"     // as many of its key are leased as may be
	WaitsForKeyRate  WaitsFor = "key_rate"      // the rate of its key allows no delivery now
	WaitsForKeyCost  WaitsFor = "key_cost_rate" // the cost rate of its key allows no delivery now
)

// ID identifies an item as long as it exists. It is the place at which the item was
// pushed.
type ID struct {
	place layout.Place
}

// idOf is the id of an item.
func idOf(l *layout.Item) ID { return ID{l.Home()} }

// Priority is the priority with which the item was pushed.
func (id ID) Priority() int64 { return id.place.Priority }

// ErrID: the id is malformed.
var ErrID = errors.New("not an item id: expected one as a push or a pop answered it")

// String returns the id in letters, digits, '-' and '_'.
func (id ID) String() string {
	var key [64]byte
	return base64.RawURLEncoding.EncodeToString(id.place.Append(key[:0]))
}

// AppendText appends what String returns.
func (id ID) AppendText(b []byte) ([]byte, error) {
	var key [64]byte
	return base64.RawURLEncoding.AppendEncode(b, id.place.Append(key[:0])), nil
}

// ParseID reads what [ID.String] wrote.
func ParseID(s string) (ID, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") { // the decoder skips these
		return ID{}, ErrID
	}
	p, err := layout.ParsePlace(b)
	if err != nil {
		return ID{}, ErrID
	}
	_, rest, err := tuple.ConsumeInt([]byte(p.Suffix))
	if err != nil {
		return ID{}, ErrID
	}
	if _, rest, err = tuple.ConsumeBytes(rest); err != nil || len(rest) > 0 {
		return ID{}, ErrID
	}
	return ID{place: p}, nil
}
