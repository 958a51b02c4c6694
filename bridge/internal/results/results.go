// Package results has the requests for what became of items: of those that have ended, and of those that may still end while the
// request waits.
//
// What it guarantees: a request that waits is answered once, when its item has left a result, or is gone without one, and at the end of
// its time at the latest, unless its client has gone. It is registered before it looks, so no end of its item comes between. How many
// wait is bounded.
//
// An item whose end this process has committed answers the request at once. Where other processes open the store, too, a watch of the
// queue tells of theirs. A purge elsewhere, and an item that a link took, tell nobody: so all requests look again once in a while.
package results

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/pops"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/subjects"
)

// result is a request for what became of an item. It is a query: one that waits asks again when the item has ended.
type result struct {
	request.Request
	id    fdbpq.ID
	wait  time.Duration
	found *fdbpq.Result

	// Of one that waits.
	by      waits                 // nil: it does not wait
	place   *waiting.Pop[*result] // nil: it has none yet
	pending bool                  // the item has not ended
	again   bool                  // it may have ended since the query under way began
}

// waits keeps requests that wait.
type waits interface {
	keep(*result)
	forget(*result)
}

// Result returns an empty request.
func Result(subjects.Verb) desk.Work { return new(result) }

func (q *result) Read(*codec.Wire) (f *failure.Failure) {
	if q.wait, f = codec.ReadWait(q.Msg, q.Subject.Verb.String()); f == nil {
		q.id, f = codec.ReadID(q.Subject.ID)
	}
	return f
}

// Find looks for the result.
func (q *result) Find(v *reads.View) (err error) {
	q.found, q.pending = nil, false
	found, err := v.Queue.Result(v.Reader, q.id)
	switch {
	case errors.Is(err, fdbpq.ErrPending) && q.by != nil:
		q.pending = true
		return nil
	case errors.Is(err, fdbpq.ErrPending), errors.Is(err, fdbpq.ErrUnkept):
		if q.Failure = failure.Explain(err); len(q.Failure.Progress) > v.Limit.MaxPayload()/2 {
			q.Failure.Progress = "" // the answer has no room for it
		}
		return nil
	case err != nil:
		return err
	case found == nil:
		q.Failure = failure.NoResult(q.Subject.Queue, q.Subject.ID)
		return nil
	}
	if q.Failure = v.Limit.UnshowableResult(q.Subject.ID, found); q.Failure == nil {
		q.found = found
	}
	return nil
}

// Bytes are those of the result.
func (q *result) Bytes() int64 {
	if q.found == nil {
		return 0
	}
	return int64(len(q.found.Body))
}

// Answer answers with the result, or has the request wait on.
func (q *result) Answer(l *reads.Desk) {
	if q.pending {
		q.by.keep(q)
		return
	}
	var w codec.HeaderWriter
	w.Reset()
	w.Result(q.found, l.Store.Display)
	m := nats.Msg{Subject: q.Msg.Reply, Header: w.Finish(), Data: q.found.Body}
	q.Share.Owe(0, len(q.found.Body))
	l.Done(&q.Request, l.Responder.Answer(&q.Request, &m))
}

// End gives the place back of a request that waited.
func (q *result) End() {
	if q.by != nil {
		q.by.forget(q)
	}
}

// Options are what [Waits] work with.
type Options struct {
	Desk      desk.Desk                 // in which it looks at queues
	Exclusive bool                      // only this process can open the store
	Clients   *pops.Waits               // knows which clients listen, and how long the others may wait
	Places    int                       // how many requests may wait
	Submit    func(string, reads.Query) // hands a query to its pool
	LookEvery time.Duration             // how often all requests that wait at a queue look again
}

// Waits has the requests for results that wait for the ends of their items.
type Waits struct {
	Options
	line *waiting.Pops[*result]

	mu     sync.Mutex
	queues map[string]*awaited
}

// awaited are the items of a queue for whose ends requests wait.
type awaited struct {
	items map[fdbpq.ID][]*result
	over  chan struct{} // closed when no request waits any more
}

const (
	// LookEvery is how often requests look again that nobody tells of the end of their item.
	LookEvery = 10 * time.Second

	// lookTime is the pause between two looks for each item of a queue for which requests wait: 20,000 items a second. It bounds the
	// load on a store that many processes share.
	lookTime   = time.Second / 20_000
	leastPause = 5 * time.Millisecond

	// lookAtOnce is how many items are read together.
	lookAtOnce = 1000
)

// New returns waits without a request.
func New(o Options) *Waits {
	w := &Waits{Options: o, queues: make(map[string]*awaited)}
	w.line = waiting.New(waiting.Options[*result]{
		Places: o.Places, Tenant: o.Clients.Tenant, End: w.end, Serve: w.serve,
		Gone: func(of []waiting.Wait) []string { return o.Clients.Gone(of, w.line.Unsee) },
	})
	return w
}

// Close ends all waits. Until Open, no request may wait.
func (w *Waits) Close(why error) { w.line.Close(why) }

// Open lets requests wait again.
func (w *Waits) Open() { w.line.Open() }

// Waiting is how many requests wait, and Unseen how many of them for a short time only, because nobody sees their clients.
func (w *Waits) Waiting() int { return w.line.Waiting() }
func (w *Waits) Unseen() int  { return w.line.Unseen() }

// Queues are the queues at which requests wait.
func (w *Waits) Queues() []string { return w.line.Queues() }

// Enter takes in a request, which waits if it asks for that.
func (w *Waits) Enter(queue string, q *result) {
	if q.wait > 0 {
		w.register(queue, q)
	}
	w.Submit(queue, q)
}

// take gives a request a place that has looked, and found that its item has not ended: whose result is there needs none.
func (w *Waits) take(q *result) error {
	queue := q.Subject.Queue
	wait, unseen := w.Clients.Bound(queue, q.Msg.Reply, q.wait)
	place := waiting.NewBegun(waiting.Wait{
		Queue: queue, Band: fdbpq.AllPriorities, Reply: q.Msg.Reply, Ends: pops.WaitEnds(q.Arrived, wait), Unseen: unseen, Looks: true,
	}, q)
	w.mu.Lock()
	q.place = place
	w.mu.Unlock()
	if err := w.line.Add(place); err != nil {
		return err
	}
	w.line.Retry(queue, w.LookEvery)
	return nil
}

func (w *Waits) register(queue string, q *result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q.by = w
	of := w.queues[queue]
	if of == nil {
		of = &awaited{items: make(map[fdbpq.ID][]*result), over: make(chan struct{})}
		w.queues[queue] = of
		if !w.Exclusive {
			go w.tend(queue, of)
		}
	}
	of.items[q.id] = append(of.items[q.id], q)
}

// forget drops a request that was answered.
func (w *Waits) forget(q *result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q.place != nil {
		w.line.Remove(q.place)
	}
	of := w.queues[q.Subject.Queue]
	if left := slices.DeleteFunc(of.items[q.id], func(other *result) bool { return other == q }); len(left) > 0 {
		of.items[q.id] = left
		return
	}
	if delete(of.items, q.id); len(of.items) == 0 {
		delete(w.queues, q.Subject.Queue)
		close(of.over)
	}
}

// Finished has the requests look that wait for the end of an item; without an id, all that wait at the queue.
func (w *Waits) Finished(queue string, id fdbpq.ID) {
	if id == (fdbpq.ID{}) {
		w.all(queue)
		return
	}
	w.lookAgain(w.begin(queue, func(of *awaited) []*result { return of.items[id] }))
}

// all has all requests look that wait at a queue.
func (w *Waits) all(queue string) {
	w.lookAgain(w.begin(queue, func(of *awaited) []*result {
		return slices.Concat(slices.Collect(maps.Values(of.items))...)
	}))
}

// begin begins an attempt of some requests. Those that are looking do so once more.
func (w *Waits) begin(queue string, which func(*awaited) []*result) (begun []*result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.queues[queue]
	if of == nil {
		return nil
	}
	for _, q := range which(of) {
		if q.place != nil && w.line.Begin(q.place) {
			begun = append(begun, q)
		} else {
			q.again = true
		}
	}
	return begun
}

func (w *Waits) lookAgain(requests []*result) {
	for _, q := range requests {
		if !w.Desk.Gate.Return(&q.Request) {
			w.Desk.Refuse(&q.Request, pops.ErrShutdown)
			continue
		}
		w.submit(q)
	}
}

// submit has a request look for its result. A query is refused that has waited for long in its line, and the wait is no part of that.
func (w *Waits) submit(q *result) {
	q.Arrived = time.Now()
	q.BeginAttempt(q.Arrived)
	w.Submit(q.Subject.Queue, q)
}

// keep has a request wait whose item has not ended, or look again if it may have ended meanwhile.
func (w *Waits) keep(q *result) {
	if q.place == nil {
		if err := w.take(q); err != nil {
			w.end(q, err)
			return
		}
	}
	again, err := w.idle(q)
	switch {
	case err != nil:
		w.end(q, err)
	case again:
		w.submit(q)
	}
}

func (w *Waits) idle(q *result) (again bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if again = q.again; again {
		q.again = false
		return true, nil
	}
	w.Desk.Gate.Leave(&q.Request)
	q.Msg = request.Kept(q.Msg)
	q.BeginWait()
	return false, w.line.Keep(q.place)
}

// end answers a request whose wait has ended without a result, unless its client has gone.
func (w *Waits) end(q *result, why error) {
	if errors.Is(why, waiting.ErrGone) {
		w.Desk.Done(&q.Request, pops.ErrGone)
		return
	}
	w.Desk.Refuse(&q.Request, w.Clients.Refusal(q.Subject.Queue, why))
}

// serve has all that waits at a queue look again, once in a while.
func (w *Waits) serve(queue string) {
	w.all(queue)
	w.line.Retry(queue, w.LookEvery)
}

// tend looks for the ends of the items for which requests wait at a queue, whenever another process may have ended one.
func (w *Waits) tend(queue string, of *awaited) {
	for {
		watch, finished, err := w.look(queue, of)
		pause := time.Second
		if err == nil {
			for _, id := range finished {
				w.Finished(queue, id)
			}
			select {
			case <-watch.Done():
			case <-of.over:
				watch.Cancel()
				return
			}
			pause = max(leastPause, time.Duration(w.size(of))*lookTime)
		}
		select {
		case <-time.After(pause):
		case <-of.over:
			return
		}
	}
}

// look returns which of the items have left a result, and a watch that tells of the others.
func (w *Waits) look(queue string, of *awaited) (watch *kv.Watch, finished []fdbpq.ID, err error) {
	l := w.Desk
	l.Begin(queue)
	err = l.Update(func(tx kv.Tx) error {
		if watch != nil { // the transaction runs again
			watch.Cancel()
		}
		at := tx.Snapshot()
		if _, err := l.Queue.Counted(at); err != nil { // who registers from here on sees no earlier state of the store
			return err
		}
		watch, finished = l.Queue.Finishes(tx), finished[:0]
		for ids := range slices.Chunk(w.ids(of), lookAtOnce) {
			some, err := l.Queue.Finished(at, ids...)
			if err != nil {
				return err
			}
			finished = append(finished, some...)
		}
		return nil
	})
	if err != nil && watch != nil {
		watch.Cancel()
	}
	return watch, finished, err
}

func (w *Waits) ids(of *awaited) []fdbpq.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(of.items))
}

func (w *Waits) size(of *awaited) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(of.items)
}
