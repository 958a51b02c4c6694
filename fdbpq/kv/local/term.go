package local

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Term is a time in which this process alone decides which commits of a replica come next. It implements kv.DB.
// Transactions that are ready wait until Next takes them into a batch. A read is answered when a batch commits that
// Next returned after the read: only then is it certain that no other process has taken over meanwhile.
type Term struct {
	db   *DB
	life lifetime
	wake chan struct{} // holds a token when a transaction or a read may wait
	turn *mutex        // of the transaction that runs alone

	mu      sync.Mutex
	waiting []*proposal
	reads   []chan error
	ended   error         // set when the term is over
	held    bool          // a transaction runs alone: no batch takes others before it
	batches int           // that have transactions and are not decided
	decided chan struct{} // closed when all batches are decided; nil: nobody waits for that
}

var _ kv.DB = (*Term)(nil)

// proposal is a transaction that is ready to commit.
type proposal struct {
	t     *tx
	c     *commit
	batch *pebble.Batch // its writes, except those that depend on stored values
	done  chan verdict  // gets the verdict of the transaction
}

// verdict is the result of a proposal.
type verdict struct {
	rerun bool // the closure has to run again
	err   error
}

// Begin begins a term. The caller has ended the term before.
func (r *Replica) Begin() *Term {
	t := &Term{db: r.db, wake: make(chan struct{}, 1), turn: newMutex()}
	t.life.idle = make(chan struct{})
	return t
}

// Brief implements [kv.Brief].
func (t *Term) Brief() int { return t.db.Brief() }

// Update implements kv.DB.
func (t *Term) Update(ctx context.Context, fn func(kv.Tx) error) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	return t.db.update(ctx, t, fn)
}

// View implements kv.DB.
func (t *Term) View(ctx context.Context, fn func(kv.Reader) error) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	return t.db.view(ctx, t, fn)
}

// enter admits a transaction. The replica stays open until it has left.
func (t *Term) enter() error {
	if !t.life.enter() {
		return kv.ErrClosed
	}
	if !t.db.life.enter() {
		t.life.leave()
		return kv.ErrClosed
	}
	if err := t.err(); err != nil {
		t.leave()
		return unavailable(err)
	}
	return nil
}

func (t *Term) leave() {
	t.db.life.leave()
	t.life.leave()
}

// Close implements kv.DB: it waits for transactions under way, for which the caller has to go on taking batches.
// The replica stays open.
func (t *Term) Close() error {
	if !t.life.close() {
		return kv.ErrClosed
	}
	t.End(kv.ErrClosed)
	return nil
}

// End ends the term: transactions that no batch has taken and reads fail with
// ErrUnavailable and the reason err, watches end.
func (t *Term) End(err error) {
	t.mu.Lock()
	if t.ended == nil {
		t.ended = err
	}
	waiting, reads := t.waiting, t.reads
	t.waiting, t.reads = nil, nil
	t.mu.Unlock()
	for _, p := range waiting {
		p.finish(verdict{err: unavailable(err)})
	}
	for _, r := range reads {
		r <- err
	}
	t.db.watches.endAll()
}

func (t *Term) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// finish answers the transaction and releases what it holds.
func (p *proposal) finish(v verdict) {
	p.t.db.writer.closeBatch(p.batch)
	p.t.end()
	p.done <- v
}

// hold keeps other transactions out of batches until release, or until the caller's transaction is the first that
// waits. It returns when all earlier batches are decided. The caller's transaction then reads the state upon which
// it commits, so it loses no conflict, however long it runs.
func (t *Term) hold(ctx context.Context) error {
	if err := t.turn.lock(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	t.held = true
	var decided chan struct{}
	if t.batches > 0 {
		if t.decided == nil {
			t.decided = make(chan struct{})
		}
		decided = t.decided
	}
	t.mu.Unlock()
	if decided == nil {
		return nil
	}
	select {
	case <-decided:
		return nil
	case <-ctx.Done():
		t.release()
		return ctx.Err()
	}
}

// release lets batches take all waiting transactions again.
func (t *Term) release() {
	t.mu.Lock()
	t.held = false
	t.mu.Unlock()
	t.turn.unlock()
	t.ready()
}

// decide notes that a batch with transactions is decided.
func (t *Term) decide() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.batches--; t.batches == 0 && t.decided != nil {
		close(t.decided)
		t.decided = nil
	}
}

// wait puts a proposal into the line for a batch: in front of the others if it runs alone.
func (t *Term) wait(p *proposal, turn *commitTurn) (ended error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.ended != nil:
		return t.ended
	case turn.held:
		t.waiting = slices.Insert(t.waiting, 0, p)
		turn.held, t.held = false, false
		t.turn.unlock()
	default:
		t.waiting = append(t.waiting, p)
	}
	return nil
}

// commit waits until a batch with the transaction is decided. It keeps tx, which must
// not be used any more.
func (t *Term) commit(ctx context.Context, tx *tx, turn *commitTurn) (ending, error) {
	w := &tx.buf.writes
	w.sort()
	if tx.pinned != nil {
		// Most conflicts are found here, and not while a batch is made.
		loss, err := tx.pinned.firstConflict(ctx, &tx.buf.reads, t.db.newest.Load())
		if err != nil {
			tx.end()
			return finished, unavailable(err)
		}
		if loss != nil {
			t.db.stats.conflicts.Add(1)
			t.db.commits.awaitApplied(ctx, loss) // so that the next run reads its writes
			tx.end()
			return lost, nil
		}
	}
	batch, err := t.db.writer.newBatch(w)
	if err != nil {
		tx.end()
		return finished, unavailable(err)
	}
	p := &proposal{t: tx, c: newCommit(w), batch: batch, done: make(chan verdict, 1)}
	if ended := t.wait(p, turn); ended != nil {
		p.finish(verdict{})
		return finished, unavailable(ended)
	}
	t.ready()
	select {
	case v := <-p.done:
		return v.ending(), v.err
	case <-ctx.Done():
	}
	if t.withdraw(p) {
		p.finish(verdict{})
		return finished, unavailable(fmt.Errorf("the log has not taken earlier commits: %w", ctx.Err()))
	}
	select {
	case v := <-p.done:
		return v.ending(), v.err
	default:
		return finished, fmt.Errorf("%w: the log has not confirmed the commit: %w", kv.ErrUnknown, ctx.Err())
	}
}

// ending says how the run of a transaction with the verdict ended.
func (v verdict) ending() ending {
	if v.rerun {
		return lost
	}
	return finished
}

// withdraw takes a proposal back that no batch has taken.
func (t *Term) withdraw(p *proposal) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.waiting {
		if t.waiting[i] == p {
			t.waiting = append(t.waiting[:i], t.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// confirm waits until a batch is committed that Next returned after this call.
func (t *Term) confirm(ctx context.Context) error {
	confirmed := make(chan error, 1)
	t.mu.Lock()
	ended := t.ended
	if ended == nil {
		t.reads = append(t.reads, confirmed)
	}
	t.mu.Unlock()
	if ended != nil {
		return ended
	}
	t.ready()
	select {
	case err := <-confirmed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the log has not confirmed the read: %w", ctx.Err())
	}
}

func (t *Term) ready() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// watch activates the watches of a transaction that had nothing to commit.
func (t *Term) watch(tx *tx) {
	watches := tx.takeWatches()
	t.db.watches.activate(watches, tx.pinned, nil)
	if t.err() != nil {
		// End may have ended the watches of the term before these were there.
		for _, w := range watches {
			t.db.watches.end(w)
		}
	}
}
