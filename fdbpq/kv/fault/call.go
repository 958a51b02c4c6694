package fault

import (
	"context"
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// call is a transaction of the engine on behalf of an Update.
type call struct {
	db    *DB
	ctx   context.Context
	fn    func(kv.Tx) error
	fault injection

	// Of the latest run.
	runs    int
	wrote   bool
	watches []*kv.Watch
}

// errThrownAway makes the engine forget a run.
var errThrownAway = errors.New("fault: a run that is thrown away")

// run is the closure that the engine sees.
func (c *call) run(base kv.Tx) error {
	c.runs++
	c.wrote, c.watches = false, nil
	c.db.countRun(c.runs)
	c.db.at(c.ctx, BeforeRun)
	if err := c.fn(&tx{Tx: base, call: c}); err != nil {
		return err
	}
	c.db.at(c.ctx, BeforeCommit)
	if c.wrote {
		c.cutOff()
	}
	if c.fault.kind == Conflict || c.fault.kind == UnknownNever && c.wrote {
		return errThrownAway
	}
	return nil
}

// cutOff takes another fault when there is no connection any more.
func (c *call) cutOff() {
	c.db.mu.Lock()
	isCutOff := c.db.condition != connected
	c.db.mu.Unlock()
	if !isCutOff {
		return
	}
	c.db.giveBack(c.fault)
	c.fault = injection{kind: UnknownNever}
	if c.db.coin() {
		c.fault.kind = UnknownDone
	}
}

// result turns what the engine says into what the caller hears.
func (c *call) result(err error) error {
	if err == nil && c.wrote {
		c.db.at(c.ctx, AfterCommit)
	}
	happened := err == errThrownAway || err == nil && c.wrote && c.fault.kind == UnknownDone
	switch {
	case happened:
		c.endWatches()
		c.db.count(func(s *Stats) { s.Injected[c.fault.kind]++ })
		if c.fault.kind == Conflict {
			return errThrownAway
		}
		return errUnknown(c.fault.kind)
	case err != nil:
		c.db.giveBack(c.fault)
		return err
	default:
		c.db.giveBack(c.fault)
		return c.keepWatches()
	}
}

func errUnknown(kind Kind) error {
	return fmt.Errorf("%w: injected (%s)", kv.ErrUnknown, kind)
}

// endWatches ends those of a transaction that did not commit as far as its
// caller can tell.
func (c *call) endWatches() {
	for _, w := range c.watches {
		w.Cancel()
	}
}

// keepWatches remembers those of a transaction that committed, for the time when
// the connection breaks. If it has, nobody knows about the transaction either.
func (c *call) keepWatches() error {
	db := c.db
	db.mu.Lock()
	isCutOff := db.condition != connected
	if !isCutOff {
		if len(db.watches)+len(c.watches) > cap(db.watches) {
			db.watches = pending(db.watches)
		}
		db.watches = append(db.watches, c.watches...)
	}
	db.mu.Unlock()
	if !isCutOff {
		return nil
	}
	c.endWatches()
	if c.wrote {
		db.count(func(s *Stats) { s.Injected[UnknownDone]++ })
		return errUnknown(UnknownDone)
	}
	return nil
}

// pending returns the watches that have not ended.
func pending(watches []*kv.Watch) []*kv.Watch {
	var rest []*kv.Watch
	for _, w := range watches {
		select {
		case <-w.Done():
		default:
			rest = append(rest, w)
		}
	}
	return rest
}

// tx is an engine's transaction that takes note of writes and watches.
type tx struct {
	kv.Tx
	call *call
}

func (t *tx) Set(key, value []byte) {
	t.call.wrote = true
	t.Tx.Set(key, value)
}

func (t *tx) Clear(key []byte) {
	t.call.wrote = true
	t.Tx.Clear(key)
}

func (t *tx) ClearRange(begin, end []byte) {
	t.call.wrote = true
	t.Tx.ClearRange(begin, end)
}

func (t *tx) Add(key []byte, delta int64) {
	t.call.wrote = true
	t.Tx.Add(key, delta)
}

func (t *tx) Max(key []byte, value uint64) {
	t.call.wrote = true
	t.Tx.Max(key, value)
}

func (t *tx) Watch(key []byte) *kv.Watch {
	w := t.Tx.Watch(key)
	t.call.watches = append(t.call.watches, w)
	return w
}
