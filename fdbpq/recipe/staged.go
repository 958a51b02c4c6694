package recipe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// The recipe's high-contention pop. A pop that loses a conflict registers a request. The owner of
// the oldest request fulfils many requests in one transaction, which leases items to them for a
// short time. Each owner fetches its items in a transaction of its own. When an owner dies, its
// leases run out, and a timer of the queue clears its rows.

const (
	fulfilRequests = 100              // in one transaction at most
	fulfilBytes    = 1 << 20          // of the items leased in it, but for the last request
	lastBytes      = 4 << 20          // of the items leased to that
	lifetime       = 10 * time.Second // of a request and of its result

	// The owner of a request that is not the oldest fulfils requests itself when its
	// own is not fulfilled for this long; the time doubles with each attempt.
	retryAfter    = 5 * time.Millisecond
	maxRetryAfter = 200 * time.Millisecond
)

// ErrContended: a pop lost a conflict, older requests exist, or the own one is gone.
var ErrContended = errors.New("contended")

// Staged pops like Pop, or like Lease when lease is not 0, in several
// transactions of its own. It is for queues that many processes pop at the same
// time: where plain pops conflict again and again, one transaction serves many, in
// the order of their requests. It does not wait for items.
func (p *Pops) Staged(ctx context.Context, queue string, sel fdbpq.Selection, lease time.Duration) (fdbpq.Popped, error) {
	if sel.PopID != "" {
		return fdbpq.Popped{}, errors.New("a staged pop takes no pop id")
	}
	if len(sel.Holders) > 0 {
		return fdbpq.Popped{}, errors.New("a staged pop takes no holders")
	}
	r := p.Request(queue, sel, lease)
	defer r.Release()
	popped, err := r.direct(ctx)
	for errors.Is(err, ErrContended) {
		popped, err = r.await(ctx)
	}
	popped.Events = append(r.events, popped.Events...)
	return popped, err
}

// Request is a staged pop under way.
type Request struct {
	fdbpq.Queue
	store   *fdbpq.Store
	session *fdbpq.Session
	sel     fdbpq.Selection
	lease   time.Duration
	tail    []byte // of the keys of its rows

	first  bool      // it was the oldest one when it last looked
	watch  *kv.Watch // of its row
	events []fdbpq.Event
}

// Request returns a staged pop whose steps the caller takes: Register, then Fulfil unless somebody
// else does, and Fetch.
func (p *Pops) Request(queue string, sel fdbpq.Selection, lease time.Duration) *Request {
	if sel.Band == nil {
		sel.Band = &fdbpq.AllPriorities
	}
	return &Request{Queue: p.store.Queue(queue), store: p.store, session: p.store.Session(), sel: sel, lease: lease}
}

// Release ends the use of the request.
func (r *Request) Release() {
	if r.watch != nil {
		r.watch.Cancel()
	}
	r.session.Release()
}

// The core has the rows of requests and results in its table of rows, and clears them by a timer.
const (
	requestSpace = "o"
	resultSpace  = "e"
	timerSpace   = "z"
	timerKind    = "o"
)

func (r *Request) prefix(space string) []byte {
	return tuple.AppendString(tuple.AppendString(nil, space), r.Name())
}

func (r *Request) row(space string) []byte { return append(r.prefix(space), r.tail...) }

func (r *Request) timerRow(due int64) []byte {
	key := tuple.AppendString(tuple.AppendInt(tuple.AppendString(nil, timerSpace), due), timerKind)
	return tuple.AppendString(tuple.AppendString(key, r.Name()), string(r.tail))
}

// pack packs what others have to know of the request. A timer clears it when it is due.
func (r *Request) pack(due int64) []byte {
	b := tuple.AppendInt(nil, due)
	for _, field := range [...]int64{
		int64(r.sel.End), r.sel.Band.Low, r.sel.Band.High, int64(r.sel.Limit), int64(r.sel.MaxBytes), int64(r.lease),
	} {
		b = tuple.AppendInt(b, field)
	}
	return b
}

func parseRequest(b []byte) (due int64, sel fdbpq.Selection, lease time.Duration, err error) {
	r := tuple.Read(b)
	var fields [7]int64
	for i := range fields {
		fields[i] = r.Int()
	}
	if r.Err() != nil {
		return 0, sel, 0, fmt.Errorf("damaged request: %w", r.Err())
	}
	if end := fields[1]; end != int64(fdbpq.Min) && end != int64(fdbpq.Max) {
		return 0, sel, 0, fmt.Errorf("damaged request: end %d", end)
	}
	sel = fdbpq.Selection{End: fdbpq.End(fields[1]), Band: &fdbpq.Band{Low: fields[2], High: fields[3]}, Limit: int(fields[4]), MaxBytes: int(fields[5])}
	return fields[0], sel, time.Duration(fields[6]), nil
}

// pop pops, or leases if lease is not 0.
func pop(q fdbpq.Queue, tx kv.Tx, sel fdbpq.Selection, lease time.Duration) (fdbpq.Popped, error) {
	if lease == 0 {
		return q.Pop(tx, sel)
	}
	return q.Lease(tx, sel, lease)
}

// once runs fn in a transaction that may not run again after a conflict: then somebody else has
// fulfilled requests, or popped.
func (r *Request) once(ctx context.Context, fn func(kv.Tx) error) error {
	runs := 0
	return r.session.Update(ctx, func(tx kv.Tx) error {
		if runs++; runs > 1 {
			return ErrContended
		}
		return fn(tx)
	})
}

// direct tries one plain pop, unless there are requests.
func (r *Request) direct(ctx context.Context) (popped fdbpq.Popped, err error) {
	err = r.once(ctx, func(tx kv.Tx) error {
		standing, err := r.oldest(tx, 1)
		if err != nil {
			return err
		}
		if len(standing) > 0 {
			return ErrContended
		}
		popped, err = pop(r.Queue, tx, r.sel, r.lease)
		return err
	})
	return popped, err
}

// oldest returns requests in their order.
func (r *Request) oldest(tx kv.Tx, limit int) ([]kv.Pair, error) {
	begin, end := tuple.Range(r.prefix(requestSpace))
	return tx.Snapshot().Range(begin, end, kv.RangeOptions{Limit: limit})
}

// await registers the request, and fulfils requests until it has a result.
func (r *Request) await(ctx context.Context) (fdbpq.Popped, error) {
	if err := r.Register(ctx); err != nil {
		return fdbpq.Popped{}, err
	}
	patience := retryAfter
	for {
		mine := r.first
		if !mine {
			wait := time.NewTimer(patience/2 + rand.N(patience))
			select {
			case <-r.watch.Done():
			case <-ctx.Done():
			case <-wait.C:
				mine = true // the owner of the oldest request may be dead
			}
			wait.Stop()
			patience = min(2*patience, maxRetryAfter)
		}
		if mine {
			if err := r.Fulfil(ctx); err != nil && !errors.Is(err, ErrContended) {
				return fdbpq.Popped{}, err
			}
		}
		if popped, answered, err := r.Fetch(ctx); err != nil || answered {
			return popped, err
		}
	}
}

// watches replaces the watch of the request's row.
func (r *Request) watches(tx kv.Tx) {
	if r.watch != nil {
		r.watch.Cancel()
	}
	r.watch = tx.Watch(r.row(requestSpace))
}

// Register writes the request behind all others, ordered like the recipe's pushes:
// by a count that is read by snapshot, then by a random part.
func (r *Request) Register(ctx context.Context) error {
	return r.session.Update(ctx, func(tx kv.Tx) error {
		begin, end := tuple.Range(r.prefix(requestSpace))
		last, err := tx.Snapshot().Range(begin, end, kv.RangeOptions{Limit: 1, Reverse: true})
		if err != nil {
			return err
		}
		count := int64(0)
		if r.first = len(last) == 0; !r.first {
			if count, _, err = tuple.ConsumeInt(last[0].Key[len(begin)-1:]); err != nil {
				return fmt.Errorf("damaged request: %w", err)
			}
		}
		var random [8]byte
		for i := range random {
			random[i] = byte(rand.Uint32())
		}
		r.tail = tuple.AppendBytes(tuple.AppendInt(nil, count+1), random[:])
		due := int64(r.store.Time() + lifetime)
		tx.Set(r.row(requestSpace), r.pack(due))
		tx.Set(r.timerRow(due), nil)
		r.watches(tx)
		return nil
	})
}

// Fulfil fulfils the oldest requests in their order, in one transaction. It returns ErrContended
// when that loses a conflict.
func (r *Request) Fulfil(ctx context.Context) error {
	var events []fdbpq.Event
	err := r.once(ctx, func(tx kv.Tx) error {
		standing, err := r.oldest(tx, fulfilRequests)
		if err != nil {
			return err
		}
		return r.store.In(tx, func(w *fdbpq.Work) error {
			bytes := int64(0)
			for _, pair := range standing {
				if bytes >= fulfilBytes {
					break
				}
				popped, err := r.fulfil(w.Queue(r.Name()), tx, pair)
				if err != nil {
					return err
				}
				if events = append(events, popped.Events...); popped.More {
					break // the next transaction continues
				}
				for _, item := range popped.Items {
					bytes += item.Size
				}
			}
			return nil
		})
	})
	if err == nil {
		r.events = append(r.events, events...)
	}
	return err
}

// fulfil leases items to one request. Fetch decides whether the lease counts as a delivery.
func (r *Request) fulfil(q fdbpq.Queue, tx kv.Tx, request kv.Pair) (fdbpq.Popped, error) {
	due, sel, lease, err := parseRequest(request.Value)
	if err != nil {
		return fdbpq.Popped{}, err
	}
	tx.Conflict(request.Key)
	var popped fdbpq.Popped
	if q.MayPop(tx, &sel, lease) == nil {
		if sel.MaxBytes == 0 || sel.MaxBytes > lastBytes {
			sel.MaxBytes = lastBytes
		}
		if popped, err = q.Lease(tx, sel, lifetime); err != nil || popped.More {
			return popped, err
		}
	}
	result := tuple.AppendInt(nil, due)
	for _, item := range popped.Items {
		result = tuple.AppendBytes(result, item.Lease.Token())
	}
	tx.Clear(request.Key)
	tx.Set(append(r.prefix(resultSpace), request.Key[len(r.prefix(requestSpace)):]...), result)
	return popped, nil
}

// Fetch returns the result of the request, if there is one. Otherwise it sees whether the request
// is the oldest one, and watches it. ErrContended: register again.
func (r *Request) Fetch(ctx context.Context) (popped fdbpq.Popped, answered bool, err error) {
	err = r.session.Update(ctx, func(tx kv.Tx) error {
		popped, answered, r.first = fdbpq.Popped{}, false, false
		rows, err := tx.GetAll([][]byte{r.row(resultSpace), r.row(requestSpace)})
		if err != nil {
			return err
		}
		result, own := rows[0], rows[1]
		switch {
		case result != nil:
			answered = true
			popped, err = r.deliver(tx, result)
			return err
		case own == nil:
			return ErrContended // a timer has cleared it
		}
		r.watches(tx)
		standing, err := r.oldest(tx, 1)
		r.first = len(standing) > 0 && string(standing[0].Key) == string(r.row(requestSpace))
		return err
	})
	return popped, answered, err
}

// deliver turns the result's short leases into what the caller asked for.
func (r *Request) deliver(tx kv.Tx, result []byte) (fdbpq.Popped, error) {
	due, rest, err := tuple.ConsumeInt(result)
	if err != nil {
		return fdbpq.Popped{}, fmt.Errorf("damaged result: %w", err)
	}
	tx.Clear(r.row(resultSpace))
	tx.Clear(r.timerRow(due))
	if len(rest) == 0 {
		return r.explain(tx)
	}
	var leases []fdbpq.Lease
	for len(rest) > 0 {
		var token []byte
		if token, rest, err = tuple.ConsumeBytes(rest); err != nil {
			return fdbpq.Popped{}, fmt.Errorf("damaged result: %w", err)
		}
		lease, err := fdbpq.ParseLease(r.Name(), token)
		if err != nil {
			return fdbpq.Popped{}, err
		}
		leases = append(leases, lease)
	}
	popped := fdbpq.Popped{Leased: r.lease}
	for i := range leases {
		stored, err := r.Get(tx.Snapshot(), leases[i].ID())
		if err != nil {
			return fdbpq.Popped{}, err
		}
		if stored != nil && stored.State == fdbpq.StateLeased {
			stored.Lease = &leases[i]
			popped.Items = append(popped.Items, stored.Item)
		}
	}
	err = r.store.In(tx, func(w *fdbpq.Work) error {
		kept := popped.Items[:0]
		for _, item := range popped.Items {
			q, lost := w.Queue(r.Name()), (*fdbpq.LostError)(nil)
			if r.lease == 0 {
				_, err = q.Ack(tx, *item.Lease)
				item.Lease = nil
				item.Deliveries--
			} else {
				var settled fdbpq.Settled
				settled, err = q.Extend(tx, *item.Lease, r.lease)
				item.Lease = settled.Lease
			}
			if errors.As(err, &lost) {
				continue
			}
			if err != nil {
				return err
			}
			kept = append(kept, item)
		}
		popped.Items = kept
		return nil
	})
	if err != nil {
		return fdbpq.Popped{}, err
	}
	if len(popped.Items) == 0 {
		return fdbpq.Popped{}, ErrContended // all leases of the result were lost
	}
	counts, err := r.Counts(tx.Snapshot())
	popped.Ready = counts.Ready
	return popped, err
}

// explain says why there was no item for the request.
func (r *Request) explain(tx kv.Tx) (fdbpq.Popped, error) {
	if err := r.MayPop(tx, &r.sel, r.lease); err != nil {
		return fdbpq.Popped{}, err
	}
	popped, err := r.Peek(tx.Snapshot(), r.sel)
	if len(popped.Items) > 0 {
		popped = fdbpq.Popped{Reason: fdbpq.ReasonEmpty} // they came later
	}
	return popped, err
}
