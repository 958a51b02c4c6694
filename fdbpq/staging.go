package fdbpq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// The recipe's high-contention pop: takes that lose register a request, and
// whoever owns the oldest one fulfils many in a single transaction. What a
// request got is leased to it for a moment; its owner collects it in a
// transaction of its own. An owner that died leaves a lease that runs out and
// a row that a timer clears.

const (
	stagedRequests = 100              // fulfilled in one transaction at most
	stagedWeight   = 1 << 20          // of the items given out in it
	stagedFor      = 10 * time.Second // how long a request stands, and its result waits

	// The owner of a request that is not the oldest looks after it itself when
	// nobody has fulfilled it for this long, growing at each further look.
	stagedPatience    = 5 * time.Millisecond
	stagedMaxPatience = 200 * time.Millisecond
)

// request is a take that somebody waits for.
type request struct {
	due   int64 // forgotten then
	sel   Selection
	lease time.Duration
}

func (m *request) pack() []byte {
	b := tuple.AppendInt(nil, m.due)
	for _, field := range [...]int64{
		int64(m.sel.End), m.sel.Band.Low, m.sel.Band.High, int64(m.sel.Limit), int64(m.sel.MaxBytes), int64(m.lease),
	} {
		b = tuple.AppendInt(b, field)
	}
	return b
}

func parseRequest(b []byte) (*request, error) {
	m := request{sel: Selection{Band: &Band{}}}
	var end, limit, maxBytes, lease int64
	rest, err := b, error(nil)
	for _, field := range [...]*int64{&m.due, &end, &m.sel.Band.Low, &m.sel.Band.High, &limit, &maxBytes, &lease} {
		if *field, rest, err = tuple.ConsumeInt(rest); err != nil {
			return nil, fmt.Errorf("damaged request: %w", err)
		}
	}
	if m.sel.End = End(end); int64(m.sel.End) != end || m.sel.End > Max {
		return nil, fmt.Errorf("damaged request: end %d", end)
	}
	m.sel.Limit, m.sel.MaxBytes, m.lease = int(limit), int(maxBytes), time.Duration(lease)
	return &m, nil
}

// PopStaged pops like Pop, or like Lease when lease is not 0, in several
// transactions of its own. It is for queues that many processes pop at the same
// time: where plain takes would conflict again and again, one transaction
// serves many, and nobody is overtaken for ever. It does not wait for items.
func (s *Store) PopStaged(ctx context.Context, queue string, sel Selection, lease time.Duration) (Popped, error) {
	if err := sel.check(); err != nil {
		return Popped{}, err
	}
	if sel.PopID != "" {
		return Popped{}, errors.New("a staged take cannot be repeated by its id: expected none")
	}
	session := s.Session()
	defer session.Release()
	staged := staged{Queue: s.Queue(queue), session: session, sel: sel, lease: lease}
	taken, err := staged.direct(ctx)
	for errors.Is(err, errContended) {
		taken, err = staged.request(ctx)
	}
	taken.Events = append(staged.events, taken.Events...)
	return taken, err
}

// errContended: a take lost against another one, or others wait already.
var errContended = errors.New("contended")

// staged is one PopStaged under way.
type staged struct {
	Queue
	session *Session
	sel     Selection
	lease   time.Duration
	key     []byte // tail of the request's rows

	events []Event // of what it did for itself and for others
}

// direct tries a plain take once, unless requests stand before it.
func (g *staged) direct(ctx context.Context) (taken Popped, err error) {
	runs := 0
	err = g.session.Update(ctx, func(tx kv.Tx) (err error) {
		if runs++; runs > 1 {
			return errContended
		}
		standing, err := g.standing(tx.Snapshot(), 1)
		if err != nil {
			return err
		}
		if len(standing) > 0 {
			return errContended
		}
		taken, err = g.take(tx, g.sel, g.lease)
		return err
	})
	return taken, err
}

// standing returns the oldest requests.
func (g *staged) standing(r kv.Reader, limit int) ([]kv.Pair, error) {
	begin, end := tuple.Range(queueRow(spaceRequest, g.name))
	return r.Range(begin, end, kv.RangeOptions{Limit: limit})
}

// request registers, and fulfils what stands until the own request is answered.
func (g *staged) request(ctx context.Context) (Popped, error) {
	first, watch, err := g.register(ctx)
	if err != nil {
		return Popped{}, err
	}
	patience := stagedPatience
	for {
		mine := first
		if !first {
			wait := time.NewTimer(patience/2 + rand.N(patience))
			select {
			case <-watch.Done():
			case <-ctx.Done():
			case <-wait.C:
				mine = true // the owner of the oldest request may be dead
			}
			wait.Stop()
			patience = min(2*patience, stagedMaxPatience)
		}
		watch.Cancel()
		if mine {
			if err := g.fulfil(ctx); err != nil && !errors.Is(err, errContended) {
				return Popped{}, err
			}
		}
		var taken Popped
		var answered bool
		taken, answered, first, watch, err = g.collect(ctx)
		if err != nil || answered {
			return taken, err
		}
	}
}

// register writes the request behind those that stand. The order is that of
// the recipe's pushes: by a count read by snapshot, then random.
func (g *staged) register(ctx context.Context) (first bool, watch *kv.Watch, err error) {
	err = g.session.Update(ctx, func(tx kv.Tx) error {
		past := tx.Snapshot()
		begin, end := tuple.Range(queueRow(spaceRequest, g.name))
		last, err := past.Range(begin, end, kv.RangeOptions{Limit: 1, Reverse: true})
		if err != nil {
			return err
		}
		count := int64(0)
		if first = len(last) == 0; !first {
			if count, _, err = tuple.ConsumeInt(last[0].Key[len(begin)-1:]); err != nil {
				return fmt.Errorf("damaged request: %w", err)
			}
		}
		now, err := g.store.now(past)
		if err != nil {
			return err
		}
		g.key = []byte(newTail(count + 1))
		m := request{due: now + int64(stagedFor), sel: g.sel, lease: g.lease}
		tx.Set(g.row(spaceRequest), m.pack())
		tx.Set(idTimerKey(m.due, timerRequest, g.name, string(g.key)), nil)
		g.store.due.expect(m.due)
		watch = tx.Watch(g.row(spaceRequest))
		return nil
	})
	return first, watch, err
}

func (g *staged) row(space string) []byte {
	return append(queueRow(space, g.name), g.key...)
}

// fulfil answers the oldest requests in their order, in one transaction. It
// runs once: when it loses, somebody else has answered or taken.
func (g *staged) fulfil(ctx context.Context) error {
	runs := 0
	var events []Event
	err := g.session.Update(ctx, func(tx kv.Tx) error {
		if runs++; runs > 1 {
			return errContended
		}
		standing, err := g.standing(tx.Snapshot(), stagedRequests)
		if err != nil {
			return err
		}
		c, err := g.begin(tx)
		if err != nil {
			return err
		}
		prefix := len(queueRow(spaceRequest, g.name))
		for _, pair := range standing {
			m, err := parseRequest(pair.Value)
			if err != nil {
				return err
			}
			tx.Conflict(pair.Key)
			var taken Popped
			if c != nil && !c.state.paused {
				// A lease for a moment; whether it counts as a delivery is decided
				// when it is collected.
				if taken, err = c.takeNew(&m.sel, stagedFor, nil); err != nil {
					return err
				}
				events = c.events
			}
			if taken.More {
				break // the next round goes on
			}
			result := tuple.AppendInt(nil, m.due)
			for _, item := range taken.Items {
				result = tuple.AppendBytes(result, item.Lease.Token())
			}
			tx.Clear(pair.Key)
			tx.Set(append(queueRow(spaceResult, g.name), pair.Key[prefix:]...), result)
			if c != nil && c.spent >= stagedWeight {
				break
			}
		}
		return nil
	})
	if err == nil {
		g.events = append(g.events, events...)
	}
	return err
}

// collect fetches the answer to the own request. When there is none yet it
// says whether the request is the oldest, and watches it.
func (g *staged) collect(ctx context.Context) (taken Popped, answered, first bool, watch *kv.Watch, err error) {
	err = g.session.Update(ctx, func(tx kv.Tx) error {
		taken, answered, first, watch = Popped{}, false, false, nil
		rows, err := tx.GetAll([][]byte{g.row(spaceResult), g.row(spaceRequest)})
		if err != nil {
			return err
		}
		result, own := rows[0], rows[1]
		switch {
		case result != nil:
			answered = true
			taken, err = g.claim(tx, result)
			return err
		case own == nil:
			return errContended // it was forgotten: start again
		}
		watch = tx.Watch(g.row(spaceRequest))
		standing, err := g.standing(tx.Snapshot(), 1)
		first = len(standing) > 0 && string(standing[0].Key) == string(g.row(spaceRequest))
		return err
	})
	return taken, answered, first, watch, err
}

// claim turns what was reserved into what was asked for.
func (g *staged) claim(tx kv.Tx, result []byte) (Popped, error) {
	due, rest, err := tuple.ConsumeInt(result)
	if err != nil {
		return Popped{}, fmt.Errorf("damaged result: %w", err)
	}
	tx.Clear(g.row(spaceResult))
	tx.Clear(idTimerKey(due, timerRequest, g.name, string(g.key)))
	c, err := g.begin(tx)
	if err != nil || c == nil {
		return Popped{Reason: ReasonUnknown}, err
	}
	if len(rest) == 0 {
		taken := Popped{}
		if c.state.paused {
			taken.Reason = ReasonPaused
			return taken, nil
		}
		return taken, g.complete(c.past, c.state, &taken)
	}
	now, err := c.now()
	if err != nil {
		return Popped{}, err
	}
	var taken Popped
	for len(rest) > 0 {
		var token []byte
		if token, rest, err = tuple.ConsumeBytes(rest); err != nil {
			return Popped{}, fmt.Errorf("damaged result: %w", err)
		}
		item, err := c.claimItem(token, now, g.lease)
		if err != nil {
			return Popped{}, err
		}
		if item != nil {
			taken.Items = append(taken.Items, *item)
		}
	}
	c.finish()
	if len(taken.Items) == 0 {
		return Popped{}, errContended // all of it was lost meanwhile: start again
	}
	return taken, g.complete(c.past, c.state, &taken)
}

func (c *change) claimItem(token []byte, now int64, d time.Duration) (*Item, error) {
	lease, err := ParseLease(c.name, token)
	if err != nil || lease.generation != c.state.generation {
		return nil, err
	}
	l, err := c.leasedItem(lease)
	if err != nil || l == nil || l.state != StateLeased || l.fence != lease.Fence {
		return nil, err
	}
	if err := c.loadContent(&l.envelope, l.place); err != nil {
		return nil, err
	}
	held := l.held()
	c.removeLeased(l.place, held)
	var own *Lease
	if d == 0 {
		held.deliveries--
		c.drop(l.place, &held.envelope)
	} else {
		held.due = now + int64(d)
		c.addLeased(l.place, held)
		own = c.lease(l.place, &held.envelope, held.due)
	}
	f := found{place: l.place, envelope: held.envelope}
	item, err := f.item()
	item.Lease = own
	return &item, err
}

// forgetRequest clears what an owner left behind that never came back.
func (c *change) forgetRequest(t timer) {
	for _, space := range []string{spaceRequest, spaceResult} {
		c.tx.Clear(append(queueRow(space, c.name), t.id...))
	}
}
