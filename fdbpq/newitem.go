package fdbpq

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// NewItem is an item to be pushed.
type NewItem struct {
	Payload []byte
	Headers []byte // opaque to this package

	Priority    int64
	HasPriority bool // otherwise the queue's default

	Delay     time.Duration // until the item is ready
	NotBefore time.Time     // the same as a time of day, by this process's wall clock; zero: Delay holds
	TTL       time.Duration // until the item expires, unless it is popped; 0: the queue's default
	MsgID     string        // pushes with the same id within the queue's dedup window add one item
	Key       string        // of a customer, a tenant, a document; "": the item has no key
	Weight    int64         // of its key where keys take turns, from this push on; 0: as it is
	ResultTTL time.Duration // for how long the queue keeps at least what became of the item, see Finish; 0: not at all
	Cost      int64         // of each delivery, where the queue or the key has a rate of cost, up to MaxCost; 0: 1

	// HandOver is a lease that the push acknowledges in its transaction.
	// The push is refused if the lease is lost (*LostError), or if the configuration of
	// the lease's queue does not name this queue (ErrHandOver).
	HandOver *Lease

	// Unique is a value that one item of the queue has at a time, from its push until it
	// is gone or dead. OnConflict says what a push does when another item has
	// it. With UniqueUntilLeased the item's first lease ends the claim to it.
	Unique            string
	OnConflict        OnConflict
	UniqueUntilLeased bool

	// Owner is what pushes the item on its own, such as a schedule, "" for a caller. An owner has unique values of its
	// own: pushes without the owner neither find nor take them, and no answer shows them.
	Owner string
}

// size is what the item counts in the queue's bytes.
func (item *NewItem) size() int64 { return int64(len(item.Headers) + len(item.Payload)) }

// OnConflict says what a push does when another item of the queue has its unique value.
// It never adds a second one.
type OnConflict string

const (
	ConflictKeep    OnConflict = "keep"    // nothing; the default
	ConflictReplace OnConflict = "replace" // the item gets the payload and the headers of the push
	ConflictRaise   OnConflict = "raise"   // the item gets the more urgent priority of the two
)

// MaxUnique bounds the bytes of a unique value: it is part of a key.
const MaxUnique = 1024

var (
	// ErrTime: a delay or a TTL is out of bounds.
	ErrTime = errors.New("time out of bounds")

	// ErrUnique: the unique value, or what to do about conflicts, is not as it should be.
	ErrUnique = errors.New("unique value")

	// ErrLeased: the item that a push is to replace is leased.
	ErrLeased = errors.New("the item is leased")

	// ErrAnotherKey: the item that a push is to replace has another key.
	ErrAnotherKey = errors.New("the item has another key")
)

// claims is the unique value of the item as its queue keeps it.
func (item *NewItem) claims() string {
	if item.Owner == "" || item.Unique == "" {
		return item.Unique
	}
	return reservedUnique + item.Owner + reservedUnique + item.Unique
}

// checkItemCost returns an error unless an item may have the cost.
func checkItemCost(cost int64) error {
	if cost == 0 {
		return nil
	}
	return CheckCost(cost, 1)
}

// checkCosts returns an error unless the item may have its cost, and a delivery that it hands over what that has cost.
func (item *NewItem) checkCosts() error {
	if err := checkItemCost(item.Cost); err != nil || item.HandOver == nil || item.HandOver.Spent == nil {
		return err
	}
	return CheckCost(*item.HandOver.Spent, 0)
}

// storedCost is the cost of an item as its row has it.
func storedCost(cost int64) int64 {
	if cost == 1 {
		return 0
	}
	return cost
}

// checkUnique returns an error when the options of a push about its unique value are not
// as they should be.
func (item *NewItem) checkUnique() error {
	switch {
	case len(item.Unique) > MaxUnique:
		return fmt.Errorf("%w of %d bytes: allowed are %d", ErrUnique, len(item.Unique), MaxUnique)
	case strings.HasPrefix(item.Unique, reservedUnique):
		return fmt.Errorf("%w %q begins with a zero byte: such values are those of schedules", ErrUnique, item.Unique)
	case item.Unique == "" && (item.OnConflict != "" || item.UniqueUntilLeased):
		return fmt.Errorf("%w is missing: expected the value that OnConflict and UniqueUntilLeased are about", ErrUnique)
	}
	switch item.OnConflict {
	case "", ConflictKeep, ConflictReplace, ConflictRaise:
		return nil
	}
	return fmt.Errorf("%w: on a conflict %q: expected %q, %q or %q", ErrUnique, item.OnConflict, ConflictKeep, ConflictReplace, ConflictRaise)
}

// CheckPushSize returns an error that wraps kv.ErrTooLarge if one transaction may have no
// room for a push of all the items. One item always has room.
func CheckPushSize(queue string, items []NewItem) error {
	size := 0
	for i := range items {
		size += items[i].TxSize(queue)
	}
	if len(items) > 1 && size > txSizeBudget {
		return fmt.Errorf("%w: %d items may take %d bytes of a transaction, with their keys: allowed are %d, so push fewer of them at a time",
			kv.ErrTooLarge, len(items), size, txSizeBudget)
	}
	return nil
}

// TxSize bounds what the push of an item adds to a transaction, keys of ids and of unique
// values included.
func (item *NewItem) TxSize(queue string) int {
	content := len(item.Payload) + len(item.Headers)
	keys := itemKeys + 3*(content/layout.ChunkSize+1) // with rows of its own
	if content <= layout.MaxInline {
		content += bytes.Count(item.Payload, zero) + bytes.Count(item.Headers, zero) // or in one row: zero bytes are escaped
	}
	return content + keys*(len(queue)+keySize) + itemKeys*len(item.MsgID) + itemKeys*len(item.claims())
}

// NewItemBytes is what an item counts in a [Size] once it is in its queue, with the id that the queue then remembers. [ItemBytes] come on top.
func NewItemBytes(item *NewItem) int {
	e := layout.Envelope{Unique: item.claims(), Key: item.Key}
	n := item.size() + e.WithOverhead()
	if item.MsgID != "" {
		n += RememberedBytes
	}
	return int(n)
}

// ImportBytes is what an imported item counts in a [Size] once it is in its queue. [ItemBytes] come on top.
func ImportBytes(item *Import) int {
	e := layout.Envelope{Unique: item.Unique, Key: item.Key, Dead: item.died()}
	e.Attempts = string(packAttempts(item.Attempts, MaxAttempts))
	return len(item.Headers) + len(item.Payload) + int(e.WithOverhead())
}
