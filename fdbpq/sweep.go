package fdbpq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/damage"
	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/storetime"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// The bounds of the transaction of one Sweep.
const (
	sweepTimers = 256
	sweepTxSize = 500_000 // of all but the last item
	sweepPages  = 64      // reads of timers; a second one follows timers that this process leaves out
	lookForRoom = time.Second
)

// Swept is the result of a Sweep.
type Swept struct {
	Timers  int           // timers handled
	Events  []Event       //
	Deleted []string      // queues that nobody uses, see [Config.ExpireEmpty]
	Next    time.Duration // until a sweep is needed again; 0: no timer is set
	Busy    bool          // another process sweeps
	Found   Found         // keys whose rows it wrote
	goesOn  bool          // it did a part of a long work, and the next part is due
	passed  passedOver    // timers of queues that only a later program serves, and of what waits for room
}

// Sweep does the work of due timers in one bounded transaction: it ends leases that
// ran out and delays that are over, expires items past their TTL, forgets message
// and pop ids, and deletes queues that nobody uses. Of several processes one sweeps at a time.
//
// Sweep returns an error once for a timer whose item is damaged. This process ignores
// the timer from then on, so that it does not block all others. Timers of queues that only a later program serves stay for that
// program, and this process lets it sweep.
func (s *Store) Sweep(ctx context.Context) (Swept, error) {
	session := s.Session()
	defer session.Release()
	var swept Swept
	err := session.Update(ctx, func(tx kv.Tx) (err error) {
		w := sweep{Work: newWork(s, tx)}
		w.sweeps = true
		swept, err = w.run()
		return err
	})
	if err != nil {
		s.inside.Damaged.Note(err)
		return Swept{}, fmt.Errorf("sweep: %w", err)
	}
	s.passedOver.note(swept.passed, s.inside.Clock.Elapsed())
	return swept, nil
}

// CollectGarbage clears rows that purges and deletions left behind, in one bounded
// transaction, and reports whether there are more.
func (s *Store) CollectGarbage(ctx context.Context) (more bool, err error) {
	session := s.Session()
	defer session.Release()
	err = session.Update(ctx, func(tx kv.Tx) error {
		w := sweep{Work: newWork(s, tx)}
		more, err = w.collect()
		return err
	})
	if err != nil {
		return false, fmt.Errorf("collect garbage: %w", err)
	}
	return more, nil
}

// sweep is the transaction of one Sweep.
type sweep struct {
	*Work
	at     int64 // store time
	txSize int
	did    map[layout.Timer]bool // works that it does once, whenever they were due
	short  shortage              // the greatest of this sweep
	swept  Swept
}

func (w *sweep) run() (Swept, error) {
	var err error
	if w.at, err = w.now(); err != nil {
		return Swept{}, err
	}
	w.short = w.store.room.shortage()
	begin, end := tuple.Range(layout.Row(layout.SpaceTimer))
	behind, waits := w.store.passedOver.last(w.store.inside.Clock.Elapsed(), w.short)
	if behind != nil {
		begin = append(behind, 0)
	}
	most := sweepTimers + 1 + w.store.inside.Damaged.Len()
	for page := 0; begin != nil; page++ {
		if page == sweepPages {
			w.swept.Next = 1
			break
		}
		timers, err := w.tx.Snapshot().Range(begin, end, kv.RangeOptions{Limit: most})
		if err != nil {
			return Swept{}, err
		}
		w.prefetch(timers)
		goesOn, err := w.runPage(timers)
		if err != nil {
			return Swept{}, err
		}
		if begin = nil; goesOn && len(timers) == most {
			begin = append(timers[most-1].Key, 0)
		}
	}
	if waits = max(waits, w.swept.passed.short); waits != roomy && (w.swept.Next == 0 || w.swept.Next > lookForRoom) {
		w.swept.Next = lookForRoom
	}
	if w.swept.passed.queues != nil && w.swept.Timers > 0 {
		w.store.inside.Take(w.tx, layout.SpaceSweeper, w.at) // a later program may sweep from now on
	}
	w.swept.Events, w.swept.Deleted, w.swept.goesOn, w.swept.Found = w.events, w.deleted, w.goesOn, w.found
	return w.swept, w.flush()
}

// runPage runs the due timers among those that were read, and reports whether there may be more of them.
func (w *sweep) runPage(timers []kv.Pair) (goesOn bool, err error) {
	for _, pair := range timers {
		if w.store.inside.Damaged.Has(pair.Key) {
			continue
		}
		t, unread := layout.ParseTimer(pair.Key)
		if unread != nil && t.Queue == "" {
			return false, damage.Of(pair.Key, "", unread)
		}
		if t.Due > w.at || w.swept.Timers == sweepTimers || w.txSize >= sweepTxSize {
			w.swept.Next = max(time.Duration(t.Due-w.at), 1)
			return false, nil
		}
		qtx, err := w.served(t.Queue)
		if errors.Is(err, ErrFormat) {
			w.swept.passed.queues.Add(t.Queue, err)
			w.swept.passed.add(pair.Key, t, w.at)
			continue
		}
		if err = cmp.Or(err, unread); err != nil {
			return false, damage.Of(pair.Key, t.Queue, err)
		}
		if needs := roomOf(qtx, t); w.waits(needs) {
			w.swept.passed.short = max(w.swept.passed.short, needs)
			w.swept.passed.add(pair.Key, t, w.at)
			continue
		}
		if w.swept.Timers == 0 {
			until, err := w.becomeSweeper()
			if err != nil {
				return false, err
			}
			if until != 0 {
				w.swept.Busy, w.swept.Next = true, time.Duration(until-w.at)
				return false, nil
			}
		}
		if w.goesOnWith(t) {
			continue
		}
		w.tx.Conflict(pair.Key)
		w.tx.Clear(pair.Key)
		if err := w.runTimer(qtx, t); err != nil {
			return false, damage.Of(pair.Key, t.Queue, err)
		}
		w.swept.Timers++
	}
	return true, nil
}

// roomOf is the least shortage in which the work of a timer waits, roomy for one that does not. An item that outlives its TTL need not
// even be marked as dead: no pop hands it out.
func roomOf(qtx *queueTx, t layout.Timer) shortage {
	switch {
	case t.Kind == layout.TimerExpiry && qtx.state.config.DeadLetterExpired:
		return noBurials
	case t.Kind == layout.TimerExpiry:
		return roomy
	}
	return timerWorks[t.Kind].waits
}

// waits reports whether work that needs room waits.
func (w *sweep) waits(needs shortage) bool {
	if needs == noBurials && w.short == roomy { // each dead letter counts
		w.short = w.store.room.shortage()
	}
	return needs != roomy && needs <= w.short
}

// served returns a queue, or an [ErrFormat] if only a later program serves it.
func (w *sweep) served(queue string) (*queueTx, error) {
	if why := w.swept.passed.queues[queue]; why != nil {
		return nil, why
	}
	return w.queue(queue)
}

// prefetch prefetches the rows of due timers.
func (w *sweep) prefetch(timers []kv.Pair) {
	for _, pair := range timers {
		t, err := layout.ParseTimer(pair.Key)
		if err != nil || t.Due > w.at {
			return // run reports the error
		}
		if ahead := timerWorks[t.Kind].ahead; ahead != nil {
			w.tx.Prefetch(ahead(t))
		}
	}
}

// runTimer does what one timer is for. The timer row is cleared already.
func (w *sweep) runTimer(qtx *queueTx, t layout.Timer) error {
	if timerWorks[t.Kind].once {
		t.Due = 0
		if w.did[t] {
			return nil
		}
		if w.did == nil {
			w.did = make(map[layout.Timer]bool)
		}
		w.did[t] = true
	}
	err := runDue(qtx, t)
	w.txSize, qtx.txSize = w.txSize+qtx.txSize, 0
	return err
}

// goesOnWith reports whether a timer is for the rest of a work that this sweep did a part of: the next sweep runs it.
func (w *sweep) goesOnWith(t layout.Timer) bool {
	now := t.Due == w.at
	t.Due = 0
	return now && w.did[t]
}

func (w *sweep) collect() (more bool, err error) {
	prefix := layout.Row(layout.SpaceGarbage)
	begin, end := tuple.Range(prefix)
	for limit := 1; begin != nil; limit = heapsAtOnce {
		heaps, err := w.tx.Range(begin, end, kv.RangeOptions{Limit: limit})
		if err != nil {
			return false, err
		}
		begin = nil
		for _, heap := range heaps {
			name, rest, err := tuple.ConsumeString(heap.Key[len(prefix):])
			if err != nil {
				return false, fmt.Errorf("damaged garbage row: %w", err)
			}
			generation, _, err := tuple.ConsumeInt(rest)
			if err != nil {
				return false, fmt.Errorf("damaged garbage row: %w", err)
			}
			if _, err := w.store.readStateRow(w.tx, name); !errors.Is(err, ErrFormat) {
				return w.collectHeap(heap.Key, name, generation)
			}
			begin = append(heap.Key, 0) // that queue may have rows of which this program does not know
		}
	}
	return false, nil
}

// heapsAtOnce is how many rows of garbage a transaction reads at a time, behind one that a later program has to clear.
const heapsAtOnce = 1000

// collectHeap clears rows of a past generation, and reports whether there may be more to do.
func (w *sweep) collectHeap(key []byte, name string, generation int64) (more bool, err error) {
	if w.at, err = w.now(); err != nil {
		return false, err
	}
	if until, err := w.becomeSweeper(); err != nil || until != 0 {
		return false, err
	}
	done, err := garbage{w.with(name, &queueState{generation: generation})}.clear()
	if err != nil {
		return false, err
	}
	if done {
		w.tx.Clear(key)
		err = w.clearDeleted(name, generation)
	}
	return err == nil, err
}

// clearDeleted clears the rows that a deleted queue has outside its generations, once
// its last generation is cleared. A later queue of the same name begins with a
// generation that no queue had.
func (w *sweep) clearDeleted(queue string, cleared int64) error {
	s, err := w.store.readStateRow(w.tx, queue)
	if err != nil || s == nil || s.exists || s.generation != cleared+1 {
		return err
	}
	for _, space := range []string{layout.SpaceState, layout.SpaceHigh, layout.SpaceArrivals} {
		w.tx.Clear(layout.QueueRow(space, queue))
	}
	w.tx.Max(layout.Row(layout.SpaceGone), uint64(s.generation))
	w.store.queueStates.forget(queue)
	return nil
}

// sweeperTerm is how long a process stays the only sweeper after a sweep. When it
// dies, another process takes over after the term.
const sweeperTerm = 2 * time.Second

// becomeSweeper makes this process the sweeper. While another process is, it returns
// the end of that term.
func (w *sweep) becomeSweeper() (until int64, err error) {
	own, until, err := w.store.inside.Term(w.tx, layout.SpaceSweeper)
	if err != nil || !own && until > w.at {
		return until, err
	}
	w.store.inside.Take(w.tx, layout.SpaceSweeper, w.at+int64(sweeperTerm))
	return 0, nil
}

// grace is how long after a downtime due timers wait, so that consumers can
// reconnect and settle their leases.
const grace = 3 * time.Second

// Maintenance has callbacks for Maintain; each may be nil.
type Maintenance struct {
	Event   func(Event)
	Problem func(error)        // a step failed; Maintain goes on
	Alive   func()             // a heartbeat was committed, as happens every second
	Found   func(Found)        // a sweep has found keys
	Deleted func(queue string) // a sweep has deleted a queue that nobody uses
}

// Maintain writes heartbeats, sweeps due timers and clears garbage until ctx ends.
// Every process that serves a store runs it once. It reports a problem while schedules wait and no process fires them:
// package schedule does.
func (s *Store) Maintain(ctx context.Context, m Maintenance) {
	if m.Event == nil {
		m.Event = func(Event) {}
	}
	if m.Problem == nil {
		m.Problem = func(error) {}
	}
	if m.Alive == nil {
		m.Alive = func() {}
	}
	if m.Found == nil {
		m.Found = func(Found) {}
	}
	if m.Deleted == nil {
		m.Deleted = func(string) {}
	}
	begin := s.inside.Clock.Elapsed()
	if s.wasDown {
		begin += grace
	}
	cleanup := cleanup{store: s}
	unfired := unfired{store: s, looked: s.inside.Clock.Elapsed()}
	due := time.NewTimer(0)
	defer due.Stop()
	beat := time.NewTicker(storetime.Every)
	defer beat.Stop()
	for beats := true; ; {
		if beats {
			if inside.Step(ctx, m.Problem, s.Beat) {
				s.presence.beat(s.inside.Clock)
				m.Alive()
			}
			inside.Step(ctx, m.Problem, cleanup.step)
			inside.Step(ctx, m.Problem, unfired.step)
			beats = false
		}
		s.alarm.reset()
		inside.Step(ctx, m.Problem, func(ctx context.Context) error {
			if early := begin - s.inside.Clock.Elapsed(); early > 0 {
				s.alarm.expect(s.inside.Clock.Now() + int64(early))
				return nil
			}
			next, err := s.sweepOnce(ctx, &m)
			if err == nil && next > 0 {
				s.alarm.expect(s.inside.Clock.Now() + int64(next))
			}
			return err
		})
		for waits := true; waits; {
			due.Reset(s.alarm.until(s.inside.Clock.Now()))
			select {
			case <-ctx.Done():
				return
			case <-s.alarm.ring: // an earlier timer was set
			case <-due.C:
				waits = false
			case <-beat.C:
				beats, waits = true, false
			}
		}
	}
}

// Beat writes this process's estimate of store time, and that the process is alive, so that others know of it before
// it serves. Maintain does so from then on.
func (s *Store) Beat(ctx context.Context) error {
	err := s.inside.DB.Update(ctx, func(tx kv.Tx) error {
		now, err := s.inside.Clock.At(tx.Snapshot())
		if err != nil {
			return err
		}
		s.inside.Clock.Write(tx, now)
		s.sessions.Beat(tx, now)
		return nil
	})
	if errors.Is(err, kv.ErrUnknown) {
		return nil // the next beat writes it again
	}
	return err
}

// sweepOnce sweeps and returns the time until the next sweep, 0 without timers. If more timers
// are due, the next sweep is at once, but heartbeats come first. A long work takes half of the time at
// most: the keys of a queue may be many, and each part of the work may have pops of strict
// queues run again. One that takes no longer than two parts wins in its second run.
func (s *Store) sweepOnce(ctx context.Context, m *Maintenance) (time.Duration, error) {
	began := s.inside.Clock.Elapsed()
	swept, err := s.Sweep(ctx)
	if swept.goesOn {
		swept.Next = max(1, s.inside.Clock.Elapsed()-began)
	}
	if s.inside.Damaged.Noted(err) {
		m.Problem(err)
		return 1, nil
	}
	s.inside.Later.Report(swept.passed.queues, m.Problem)
	for _, event := range swept.Events {
		m.Event(event)
	}
	for _, queue := range swept.Deleted {
		m.Deleted(queue)
	}
	m.Found(swept.Found)
	return swept.Next, err
}

// cleanupFor bounds the time of a round that clears garbage, so that due timers do
// not wait for it.
const cleanupFor = 200 * time.Millisecond

// retireEvery is the interval between searches for sessions of dead processes.
const retireEvery = 10 * time.Minute

// cleanup clears garbage and the sessions of dead processes, a little at a time.
type cleanup struct {
	store   *Store
	retired time.Duration // when sessions were last retired, by the process's clock
}

func (t *cleanup) step(ctx context.Context) error {
	start := t.store.inside.Clock.Elapsed()
	for more := true; more && t.store.inside.Clock.Elapsed()-start < cleanupFor; {
		var err error
		if more, err = t.store.CollectGarbage(ctx); err != nil {
			return err
		}
	}
	if start-t.retired < retireEvery {
		return nil
	}
	t.retired = start
	for next, err := t.store.RetireSessions(ctx, nil); next != nil || err != nil; next, err = t.store.RetireSessions(ctx, next) {
		if err != nil {
			return err
		}
	}
	return nil
}
