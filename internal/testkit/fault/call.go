package fault

import (
	"context"
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// call is one transaction of the engine for an Update.
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

// errDiscarded makes the engine discard a run.
var errDiscarded = errors.New("fault: the run is discarded")

// run is the closure that the engine sees.
func (c *call) run(base kv.Tx) error {
	c.runs++
	c.wrote, c.watches = false, nil
	c.db.countRun(c.runs)
	c.at(BeforeRun)
	if err := c.fn(&tx{Tx: base, call: c}); err != nil {
		return err
	}
	c.at(BeforeCommit)
	if c.wrote {
		c.applyCondition()
	}
	if c.fault.kind == Conflict || c.fault.kind == UnknownNever && c.wrote {
		return errDiscarded
	}
	return nil
}

// at is called at a point of a run. Late commits do not go on within a second or later run: the engine may make
// them wait for it.
func (c *call) at(point Point) {
	c.db.at(c.ctx, point)
	if c.runs == 1 {
		c.db.finishDueLate()
	}
}

// applyCondition replaces the fault by an unknown result when the connection is broken.
func (c *call) applyCondition() {
	c.db.mu.Lock()
	isCutOff := c.db.condition != connected
	c.db.mu.Unlock()
	if !isCutOff {
		return
	}
	c.db.requeue(c.fault)
	c.fault = injection{kind: UnknownNever}
	if c.db.coin() {
		c.fault.kind = UnknownDone
	}
}

// result turns the engine's result into the caller's.
func (c *call) result(err error) error {
	if err == nil && c.wrote {
		c.db.at(c.ctx, AfterCommit)
		c.db.finishDueLate()
	}
	happened := err == errDiscarded || err == nil && c.wrote && c.fault.kind == UnknownDone
	switch {
	case happened:
		c.endWatches()
		c.db.count(func(s *Stats) { s.Injected[c.fault.kind]++ })
		if c.fault.kind == Conflict {
			return errDiscarded
		}
		return errUnknown(c.fault.kind)
	case err != nil:
		c.db.requeue(c.fault)
		return err
	default:
		c.db.requeue(c.fault)
		return c.keepWatches()
	}
}

func errUnknown(kind Kind) error {
	return fmt.Errorf("%w: injected (%s)", kv.ErrUnknown, kind)
}

// endWatches ends the watches of a transaction whose caller gets an error.
func (c *call) endWatches() {
	for _, w := range c.watches {
		w.Cancel()
	}
}

// keepWatches keeps the watches of a committed transaction, to end them when the
// connection breaks. If it is broken already, the result of the transaction is unknown.
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

// tx records the writes and watches of an engine's transaction.
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
