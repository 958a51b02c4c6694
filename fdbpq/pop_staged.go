package fdbpq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// The recipe's high-contention pop. It is for users of the library; pqd does not
// call it, since its bridges coordinate over NATS.
//
// A pop that loses a conflict registers a request. The owner of the oldest request
// fulfils many requests in one transaction, which leases items to them for a short
// time. Each owner fetches its items in a transaction of its own. When an owner dies,
// its leases run out and a timer clears its rows.

const (
	stagedRequests = 100              // fulfilled in one transaction at most
	stagedTxSize   = 1 << 20          // of the items leased in it
	stagedLifetime = 10 * time.Second // of a request and of its result

	// The owner of a request that is not the oldest fulfils requests itself when its
	// own is not fulfilled for this long; the time doubles with each attempt.
	stagedRetryAfter    = 5 * time.Millisecond
	stagedMaxRetryAfter = 200 * time.Millisecond
)

// stagedRequest is the value of a request's row.
type stagedRequest struct {
	due   int64 // when a timer clears it
	sel   Selection
	lease time.Duration
}

func (m *stagedRequest) pack() []byte {
	b := tuple.AppendInt(nil, m.due)
	for _, field := range [...]int64{
		int64(m.sel.End), m.sel.Band.Low, m.sel.Band.High, int64(m.sel.Limit), int64(m.sel.MaxBytes), int64(m.lease),
	} {
		b = tuple.AppendInt(b, field)
	}
	return b
}

func parseStagedRequest(b []byte) (*stagedRequest, error) {
	m := stagedRequest{sel: Selection{Band: &Band{}}}
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
// time: where plain pops conflict again and again, one transaction serves many, in
// the order of their requests. It does not wait for items.
func (s *Store) PopStaged(ctx context.Context, queue string, sel Selection, lease time.Duration) (Popped, error) {
	if err := sel.check(); err != nil {
		return Popped{}, err
	}
	if sel.PopID != "" {
		return Popped{}, errors.New("a staged pop takes no pop id")
	}
	if len(sel.Holders) > 0 {
		return Popped{}, errors.New("a staged pop takes no holders")
	}
	session := s.Session()
	defer session.Release()
	staged := staged{Queue: s.Queue(queue), session: session, sel: sel, lease: lease}
	popped, err := staged.tryDirect(ctx)
	for errors.Is(err, errContended) {
		popped, err = staged.request(ctx)
	}
	popped.Events = append(staged.events, popped.Events...)
	return popped, err
}

// errContended: a pop lost a conflict, or older requests exist.
var errContended = errors.New("contended")

// staged is one call of PopStaged.
type staged struct {
	Queue
	session *Session
	sel     Selection
	lease   time.Duration
	key     []byte // tail of the request's rows

	events []Event // of all pops that it ran, for itself and for others
}

// tryDirect tries one plain pop, unless there are requests.
func (g *staged) tryDirect(ctx context.Context) (popped Popped, err error) {
	runs := 0
	err = g.session.Update(ctx, func(tx kv.Tx) (err error) {
		if runs++; runs > 1 {
			return errContended
		}
		standing, err := g.oldestRequests(tx.Snapshot(), 1)
		if err != nil {
			return err
		}
		if len(standing) > 0 {
			return errContended
		}
		popped, err = g.pop(tx, g.sel, g.lease)
		return err
	})
	return popped, err
}

// oldestRequests returns requests in their order.
func (g *staged) oldestRequests(r kv.Reader, limit int) ([]kv.Pair, error) {
	begin, end := tuple.Range(queueRow(spaceRequest, g.name))
	return r.Range(begin, end, kv.RangeOptions{Limit: limit})
}

// request registers a request, and fulfils requests until its own has a result.
func (g *staged) request(ctx context.Context) (Popped, error) {
	first, watch, err := g.register(ctx)
	if err != nil {
		return Popped{}, err
	}
	patience := stagedRetryAfter
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
			patience = min(2*patience, stagedMaxRetryAfter)
		}
		watch.Cancel()
		if mine {
			if err := g.fulfil(ctx); err != nil && !errors.Is(err, errContended) {
				return Popped{}, err
			}
		}
		var popped Popped
		var answered bool
		popped, answered, first, watch, err = g.fetch(ctx)
		if err != nil || answered {
			return popped, err
		}
	}
}

// register writes the request behind all others, ordered like the recipe's pushes:
// by a count that is read by snapshot, then by a random part.
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
		m := stagedRequest{due: now + int64(stagedLifetime), sel: g.sel, lease: g.lease}
		tx.Set(g.row(spaceRequest), m.pack())
		tx.Set(idTimerKey(m.due, timerRequest, g.name, string(g.key)), nil)
		g.store.alarm.expect(m.due)
		watch = tx.Watch(g.row(spaceRequest))
		return nil
	})
	return first, watch, err
}

func (g *staged) row(space string) []byte {
	return append(queueRow(space, g.name), g.key...)
}

// fulfil fulfils the oldest requests in their order, in one transaction. It runs
// once: if it loses a conflict, another process has fulfilled or popped.
func (g *staged) fulfil(ctx context.Context) error {
	runs := 0
	var events []Event
	err := g.session.Update(ctx, func(tx kv.Tx) error {
		if runs++; runs > 1 {
			return errContended
		}
		standing, err := g.oldestRequests(tx.Snapshot(), stagedRequests)
		if err != nil {
			return err
		}
		qtx, err := g.begin(tx)
		if err != nil {
			return err
		}
		prefix := len(queueRow(spaceRequest, g.name))
		for _, pair := range standing {
			m, err := parseStagedRequest(pair.Value)
			if err != nil {
				return err
			}
			tx.Conflict(pair.Key)
			var popped Popped
			if qtx != nil && !qtx.state.paused && qtx.state.refuses(&m.sel, m.lease) == nil {
				// deliver decides whether this lease counts as a delivery.
				if popped, err = qtx.popNew(&m.sel, stagedLifetime, nil); err != nil {
					return err
				}
				events = append(events, popped.Events...)
			}
			if popped.More {
				break // the next transaction continues
			}
			result := tuple.AppendInt(nil, m.due)
			for _, item := range popped.Items {
				result = tuple.AppendBytes(result, item.Lease.Token())
			}
			tx.Clear(pair.Key)
			tx.Set(append(queueRow(spaceResult, g.name), pair.Key[prefix:]...), result)
			if qtx != nil && qtx.txSize >= stagedTxSize {
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

// fetch returns the result of the own request. When there is none yet, it tells
// whether the request is the oldest one, and watches it.
func (g *staged) fetch(ctx context.Context) (popped Popped, answered, first bool, watch *kv.Watch, err error) {
	err = g.session.Update(ctx, func(tx kv.Tx) error {
		popped, answered, first, watch = Popped{}, false, false, nil
		rows, err := tx.GetAll([][]byte{g.row(spaceResult), g.row(spaceRequest)})
		if err != nil {
			return err
		}
		result, own := rows[0], rows[1]
		switch {
		case result != nil:
			answered = true
			popped, err = g.deliver(tx, result)
			return err
		case own == nil:
			return errContended // a timer has cleared it: start again
		}
		watch = tx.Watch(g.row(spaceRequest))
		standing, err := g.oldestRequests(tx.Snapshot(), 1)
		first = len(standing) > 0 && string(standing[0].Key) == string(g.row(spaceRequest))
		return err
	})
	return popped, answered, first, watch, err
}

// deliver turns the result's short leases into what the caller asked for.
func (g *staged) deliver(tx kv.Tx, result []byte) (Popped, error) {
	due, rest, err := tuple.ConsumeInt(result)
	if err != nil {
		return Popped{}, fmt.Errorf("damaged result: %w", err)
	}
	tx.Clear(g.row(spaceResult))
	tx.Clear(idTimerKey(due, timerRequest, g.name, string(g.key)))
	qtx, err := g.begin(tx)
	if err != nil || qtx == nil {
		return Popped{Reason: ReasonUnknown}, err
	}
	if len(rest) == 0 {
		popped := Popped{}
		if err := qtx.state.refuses(&g.sel, g.lease); err != nil {
			return Popped{}, err
		}
		if qtx.state.paused {
			popped.Reason = ReasonPaused
			return popped, nil
		}
		head := collector{queueTx: qtx, sel: g.sel}
		retry, err := head.bound()
		if err != nil {
			return Popped{}, err
		}
		if head.sel.Limit == 0 {
			return popped, qtx.completeLater(&popped, retry)
		}
		if qtx.state.takesTurns() {
			if popped.Retry, err = head.nextToken(); err != nil {
				return Popped{}, err
			}
		}
		return popped, qtx.complete(&popped)
	}
	now, err := qtx.now()
	if err != nil {
		return Popped{}, err
	}
	popped := Popped{Leased: g.lease}
	for len(rest) > 0 {
		var token []byte
		if token, rest, err = tuple.ConsumeBytes(rest); err != nil {
			return Popped{}, fmt.Errorf("damaged result: %w", err)
		}
		item, err := stagedPops{qtx}.deliver(token, now, g.lease)
		if err != nil {
			return Popped{}, err
		}
		if item != nil {
			popped.Items = append(popped.Items, *item)
		}
	}
	if err := qtx.done(); err != nil {
		return Popped{}, err
	}
	if len(popped.Items) == 0 {
		return Popped{}, errContended // all leases of the result were lost: start again
	}
	return popped, qtx.complete(&popped)
}

// stagedPops is what a queue does about staged pops.
type stagedPops struct{ *queueTx }

func (g stagedPops) deliver(token []byte, now int64, d time.Duration) (*Item, error) {
	lease, err := ParseLease(g.name, token)
	if err != nil || lease.generation != g.state.generation {
		return nil, err
	}
	l, err := g.itemOfLease(lease)
	if err != nil || l == nil || l.state != StateLeased || l.fence != lease.Fence {
		return nil, err
	}
	if err := (contents{g.queueTx}).load(&l.envelope, l.place); err != nil {
		return nil, err
	}
	var own *Lease
	if d == 0 {
		g.change(l, nil)
		l.deliveries--
	} else {
		before := *l
		l.due = now + int64(d)
		g.change(&before, l)
		own = g.lease(l)
	}
	item, err := l.item()
	item.Lease = own
	return &item, err
}

// due clears the rows of a request whose owner died.
func (g stagedPops) due(t timer) error {
	for _, space := range []string{spaceRequest, spaceResult} {
		g.tx.Clear(append(queueRow(space, g.name), t.id...))
	}
	return nil
}

// foundRequest checks a row of a request, or of its result.
func foundRequest(w *walk, r *foundRow) error {
	due, _, err := tuple.ConsumeInt(r.Value)
	w.expect(idTimerKey(due, timerRequest, r.queue, string(r.rest)), nil)
	return err
}
