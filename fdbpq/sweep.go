package fdbpq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// The bounds of one transaction that does due work.
const (
	sweepTimers = 256
	sweepBytes  = 1 << 20
	sweepWeight = 500_000 // of all but the last item
)

// sweepClaim is how long a process that does due work has it to itself. When
// it dies, another one takes over that much later.
const sweepClaim = 2 * time.Second

// Swept tells what a sweep did.
type Swept struct {
	Timers int           // handled
	Events []Event       //
	Next   time.Duration // until a sweep is needed again; 0: no timer is set
	Busy   bool          // another process does the work
}

// Sweep does the work that is due, in one bounded transaction: leases that ran
// out end, delayed items become ready, items past their TTL go, message ids are
// forgotten. Any number of processes may sweep; one of them works at a time.
//
// A timer whose item is damaged is reported once, as an error, and set aside
// for as long as the process lives, so that it does not hold up all others.
func (s *Store) Sweep(ctx context.Context) (Swept, error) {
	session := s.Session()
	defer session.Release()
	var swept Swept
	err := session.Update(ctx, func(tx kv.Tx) (err error) {
		w := sweep{store: s, tx: tx, changes: make(map[string]*change)}
		swept, err = w.run()
		return err
	})
	if err != nil {
		var damage *timerError
		if errors.As(err, &damage) {
			s.aside.add(damage.key)
		}
		return Swept{}, fmt.Errorf("sweep: %w", err)
	}
	return swept, nil
}

// timerError is what a timer came to that no other attempt will mend.
type timerError struct {
	key   []byte
	queue string
	err   error
}

func (e *timerError) Error() string { return fmt.Sprintf("timer of queue %q: %v", e.queue, e.err) }

func (e *timerError) Unwrap() error { return e.err }

// isDamage tells whether an error is about what the store holds, not about the
// store being away.
func isDamage(err error) bool {
	return !errors.Is(err, kv.ErrUnavailable) && !errors.Is(err, kv.ErrUnknown) && !errors.Is(err, kv.ErrClosed)
}

// aside are timers that this process leaves alone.
type aside struct {
	mu   sync.Mutex
	keys map[string]bool
}

// maxAside bounds what is remembered. A store with more damage than that needs
// an operator before it needs its timers.
const maxAside = 1000

func (a *aside) add(key []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keys == nil {
		a.keys = make(map[string]bool)
	}
	if len(a.keys) < maxAside {
		a.keys[string(key)] = true
	}
}

func (a *aside) has(key []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keys[string(key)]
}

func (a *aside) len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.keys)
}

// sweep is one transaction's worth of due work.
type sweep struct {
	store   *Store
	tx      kv.Tx
	now     int64
	weight  int
	changes map[string]*change // by queue
}

func (w *sweep) run() (Swept, error) {
	var err error
	if w.now, err = w.store.now(w.tx.Snapshot()); err != nil {
		return Swept{}, err
	}
	begin, end := tuple.Range(row(spaceTimer))
	timers, err := w.tx.Snapshot().Range(begin, end, kv.RangeOptions{Limit: sweepTimers + 1 + w.store.aside.len()})
	if err != nil || len(timers) == 0 {
		return Swept{}, err
	}
	w.prefetch(timers)
	var swept Swept
	for _, pair := range timers {
		if w.store.aside.has(pair.Key) {
			continue
		}
		t, err := parseTimer(pair.Key)
		if err != nil {
			return Swept{}, &timerError{key: pair.Key, err: err}
		}
		if t.due > w.now || swept.Timers == sweepTimers || w.weight >= sweepWeight {
			swept.Next = max(time.Duration(t.due-w.now), 1)
			break
		}
		if swept.Timers == 0 {
			until, err := w.claim()
			if err != nil {
				return Swept{}, err
			}
			if until != 0 {
				return Swept{Busy: true, Next: time.Duration(until - w.now)}, nil
			}
		}
		w.tx.Conflict(pair.Key)
		w.tx.Clear(pair.Key)
		if err := w.handle(t); err != nil {
			if isDamage(err) {
				err = &timerError{key: pair.Key, queue: t.queue, err: err}
			}
			return Swept{}, err
		}
		swept.Timers++
	}
	for _, c := range w.changes {
		c.finish()
		swept.Events = append(swept.Events, c.events...)
	}
	return swept, nil
}

// prefetch asks for the items whose timers are due.
func (w *sweep) prefetch(timers []kv.Pair) {
	for _, pair := range timers {
		t, err := parseTimer(pair.Key)
		if err != nil || t.due > w.now {
			return // whoever handles the timer will tell
		}
		switch t.kind {
		case timerLease:
			w.tx.Prefetch(t.place.append(generationPrefix(spaceLeased, t.queue, t.generation)))
		case timerDelay:
			w.tx.Prefetch(t.place.append(generationPrefix(spaceDelayed, t.queue, t.generation)))
		case timerDedup:
			w.tx.Prefetch(dedupRow(t.queue, t.id))
		}
	}
}

// claim makes this process the one that sweeps, unless another one is: then it
// returns until when.
func (w *sweep) claim() (until int64, err error) {
	key := row(spaceSweeper)
	value, err := w.tx.Get(key)
	if err != nil {
		return 0, err
	}
	own := string(w.store.sessions.process[:])
	if value != nil {
		process, rest, err := tuple.ConsumeBytes(value)
		if err != nil {
			return 0, fmt.Errorf("damaged sweeper row: %w", err)
		}
		if until, _, err = tuple.ConsumeInt(rest); err != nil {
			return 0, fmt.Errorf("damaged sweeper row: %w", err)
		}
		if string(process) != own && until > w.now {
			return until, nil
		}
	}
	w.tx.Set(key, tuple.AppendInt(tuple.AppendBytes(nil, []byte(own)), w.now+int64(sweepClaim)))
	return 0, nil
}

// handle does what one timer is for. The timer row is cleared already.
func (w *sweep) handle(t timer) error {
	q := w.store.Queue(t.queue)
	s, err := q.readRow(w.tx) // each time: a burial may have made this queue
	if err != nil {
		return err
	}
	if s == nil {
		s = new(state) // it is gone: what the timer is for is as well, but for a request
	}
	c := w.changes[t.queue]
	if c == nil {
		c = q.change(w.tx, s)
		c.clock = w.now
		w.changes[t.queue] = c
	}
	c.state = s
	err = w.handleOf(c, t)
	w.weight, c.spent = w.weight+c.spent, 0
	return err
}

func (w *sweep) handleOf(c *change, t timer) error {
	switch t.kind {
	case timerDedup:
		return c.forgetDue(t)
	case timerReplay:
		return c.forgetPopDue(t)
	case timerRequest:
		c.forgetRequest(t)
		return nil
	}
	if t.generation != c.state.generation {
		return nil // of a purged generation
	}
	key := c.key
	switch t.kind {
	case timerLease:
		row, err := w.tx.Get(key(spaceLeased, t.place))
		if err != nil || row == nil {
			return err
		}
		l, err := parseLeased(row, t.place)
		if err != nil || l.due != t.due {
			return err
		}
		c.spent += c.weight(&l.envelope, false)
		c.note(Event{Type: EventLeaseLost, ID: l.id(t.place), Priority: t.place.priority, Deliveries: l.deliveries})
		return c.release(t.place, &l, 0)
	case timerDelay:
		row, err := w.tx.Get(key(spaceDelayed, t.place))
		if err != nil || row == nil {
			return err
		}
		due, e, err := parseDelayed(row, t.place)
		if err != nil || due != t.due {
			return err
		}
		c.spent += c.weight(&e, false)
		c.removeDelayed(t.place, due, &e)
		if e.expires != 0 && e.expires <= w.now {
			return c.expire(t.place, &e)
		}
		c.addReady(t.place, &e)
		return nil
	case timerExpiry:
		l, err := c.locate(w.tx, c.state, ID{t.place})
		if err != nil || l == nil || l.state == StateLeased || l.expires != t.due {
			return err
		}
		c.spent += c.weight(&l.envelope, false)
		c.remove(l)
		return c.expire(l.place, &l.envelope)
	}
	return fmt.Errorf("unknown kind %q", t.kind)
}

func (c *change) forgetDue(t timer) error {
	row, err := c.tx.Get(dedupRow(c.name, t.id))
	if err != nil || row == nil {
		return err
	}
	m, err := parseRemembered(row)
	if err != nil || m.due != t.due {
		return err
	}
	c.forget(t.id, m)
	return nil
}

func (c *change) forgetPopDue(t timer) error {
	row, err := c.tx.Get(replayRow(c.name, t.id))
	if err != nil || row == nil {
		return err
	}
	m, err := parseReplay(row)
	if err != nil || m.due != t.due {
		return err
	}
	c.forgetPop(t.id, m)
	return nil
}
