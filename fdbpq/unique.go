package fdbpq

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A unique value has one row, which names the item by its id. A push depends on that row and on
// the rows of the item. The transaction that ends the item clears the row blindly, so pops and
// settlements read nothing more. The item repeats its value: a row whose item does not have the
// value counts as none.

// OnConflict says what a push does when another item of the queue has its unique value.
// It never adds a second one.
type OnConflict string

const (
	ConflictKeep    OnConflict = "keep"    // nothing; the default
	ConflictReplace OnConflict = "replace" // the item gets the payload and the headers of the push
	ConflictRaise   OnConflict = "raise"   // the item gets the more urgent priority of the two
)

// reservedUnique begins the unique values that no push may have: the store gives them itself.
const reservedUnique = "\x00"

// MaxUnique bounds the bytes of a unique value: it is part of a key.
const MaxUnique = 1024

var (
	// ErrUnique: the unique value, or what to do about conflicts, is not as it should be.
	ErrUnique = errors.New("unique value")

	// ErrLeased: the item that a push is to replace is leased.
	ErrLeased = errors.New("the item is leased")

	// ErrAnotherKey: the item that a push is to replace has another key.
	ErrAnotherKey = errors.New("the item has another key")
)

// unique is what a queue does about unique values.
type unique struct{ *queueTx }

// changed makes an item the one with its unique value, or ends its claim to that.
func (u unique) changed(before, after *located) {
	if before.unique == after.unique {
		return
	}
	if before.unique != "" {
		u.tx.Clear(u.row(before.unique))
	}
	if after.unique != "" {
		u.tx.Set(u.row(after.unique), after.id(after.place).place.append(nil))
	}
}

func (u unique) row(value string) []byte {
	return uniqueRow(u.name, u.state.generation, value)
}

// uniqueRow returns the key of a unique value in one generation of a queue.
func uniqueRow(queue string, generation int64, value string) []byte {
	return tuple.AppendBytes(generationPrefix(spaceUnique, queue, generation), []byte(value))
}

// endClaim ends the claim of an item to its value when it is leased, if that is agreed.
func (e *envelope) endClaim() {
	if e.untilLeased {
		e.unique, e.untilLeased = "", false
	}
}

// claim is what the claim of an item looks like. One to a reserved value is nobody's business.
func (e *envelope) claim() (value string, untilLeased bool) {
	if strings.HasPrefix(e.unique, reservedUnique) {
		return "", false
	}
	return e.unique, e.untilLeased
}

// claimant returns the living item with a unique value, nil when there is none. An item
// past its TTL ends here if nothing has ended it yet. The commit depends on the answer, so
// two pushes cannot both be the first. An item that is handed over leaves its value.
func (p *pusher) claimant(value string, h *handOver) (*located, error) {
	row, err := p.tx.Get(unique{p.queueTx}.row(value))
	if err != nil || row == nil {
		return nil, err
	}
	home, err := parsePlace(row)
	if err != nil {
		return nil, fmt.Errorf("damaged row of a unique value: %w", err)
	}
	item, err := p.locate(p.tx, ID{home})
	if err != nil || item == nil || item.unique != value || h.hands(item, p) {
		return nil, err
	}
	if item.expires == 0 {
		return item, nil
	}
	now, err := p.now()
	if err != nil || item.expires > now || item.state == StateLeased && item.due > now {
		return item, err
	}
	if item.state == StateLeased {
		return nil, retries{p.queueTx}.runOut(item)
	}
	return nil, times{p.queueTx}.expire(item)
}

// resolve is a push whose unique value a living item has.
func (p *pusher) resolve(item *NewItem, priority int64, living *located, handOver *handOver) (Pushed, error) {
	if item.MsgID != "" {
		if err := (ids{p.queueTx}).room(p.counted.Remembered); err != nil {
			return Pushed{Err: err}, nil
		}
	}
	seq, err := living.place.count()
	if err != nil {
		return Pushed{}, err
	}
	pushed := Pushed{ID: living.id(living.place), Seq: seq, Priority: living.returnPriority, Duplicate: true}
	switch {
	case item.OnConflict == ConflictReplace && living.state == StateLeased:
		return Pushed{Err: ErrLeased}, nil
	case item.OnConflict == ConflictReplace && item.Key != living.key:
		return Pushed{Err: fmt.Errorf("%w: %q", ErrAnotherKey, living.key)}, nil
	case item.OnConflict == ConflictReplace && p.full != nil && item.size() > living.size:
		return Pushed{Err: p.full}, nil
	case item.OnConflict == ConflictReplace && item.size() > living.size && p.excess(p.counted.with(&p.tally)).bytes+item.size()-living.size > 0:
		return Pushed{Err: p.tooFull(amount{bytes: 1})}, nil
	case item.OnConflict == ConflictReplace:
		if err := checkContent(item.Headers, item.Payload); err != nil {
			return Pushed{Err: err}, nil
		}
		if err := p.replaceContent(living, item); err != nil {
			return Pushed{}, err
		}
	case item.OnConflict == ConflictRaise && priority < living.returnPriority:
		p.move(living, priority)
		pushed.Priority = priority
	}
	handOver.acknowledge()
	if item.MsgID != "" {
		err = ids{p.queueTx}.remember(item.MsgID, pushed.ID)
	}
	return pushed, err
}

// replaceContent gives an item that is not leased the content of a push.
func (p *pusher) replaceContent(living *located, item *NewItem) error {
	fresh := *living
	fresh.chunks = 0
	if err := (contents{p.queueTx}).write(&fresh.envelope, fresh.place, item.Headers, item.Payload); err != nil {
		return err
	}
	p.change(living, &fresh)
	return nil
}

// checkUnique returns an error when the options of a push about its unique value are not
// as they should be.
func (item *NewItem) checkUnique() error {
	switch {
	case len(item.Unique) > MaxUnique:
		return fmt.Errorf("%w of %d bytes: allowed are %d", ErrUnique, len(item.Unique), MaxUnique)
	case strings.HasPrefix(item.Unique, reservedUnique) && !item.reserved:
		return fmt.Errorf("%w %q begins with a zero byte: such values are those of schedules", ErrUnique, item.Unique)
	case item.Unique == "" && (item.OnConflict != "" || item.UniqueUntilLeased):
		return fmt.Errorf("%w is missing: expected one together with what is done about it", ErrUnique)
	}
	switch item.OnConflict {
	case "", ConflictKeep, ConflictReplace, ConflictRaise:
		return nil
	}
	return fmt.Errorf("%w: on a conflict %q: expected %q, %q or %q", ErrUnique, item.OnConflict, ConflictKeep, ConflictReplace, ConflictRaise)
}

// unclaimed returns ErrOccupied if a living item has a unique value.
func (p *pusher) unclaimed(value string) error {
	living, err := p.claimant(value, nil)
	if err == nil && living != nil {
		err = fmt.Errorf("%w: %s has the unique value %q", ErrOccupied, living.id(living.place), value)
	}
	return err
}
