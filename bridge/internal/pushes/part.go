package pushes

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// New returns the part of pushes in a turn.
func New(l *desk.Desk) desk.Part { return &part{Desk: l} }

// Beside lets turns of a queue overlap. On a store that other processes can open, too, a commit crosses a network, and pushes do
// not conflict with each other.
var Beside = turns.Overlap[desk.Work]{Turns: 3, Least: time.Millisecond, Source: func(w desk.Work) string { return w.(*push).source() }}

// part is the part of a queue's pushes in a turn.
type part struct {
	turns.Simple[desk.Work, kv.Tx]
	*desk.Desk
	beside       bool        // other turns may have pushes of the queue
	spreadBuffer []desk.Work // of spread
	out          []byte      // of an answer

	// The present transaction.
	requests  []desk.Work
	items     []fdbpq.NewItem
	pushed    []fdbpq.Pushed // results of its last run
	queue     fdbpq.Queue
	admission *tenants.Admission
}

// Open reads the bundles among pushes.
func (l *part) Open(s turns.Start, requests []desk.Work) {
	l.Begin(s.Queue)
	l.beside = s.Beside
	clear(l.spreadBuffer)
	requests = slices.DeleteFunc(requests, func(w desk.Work) bool { return l.refuses(w.(*push)) })
	requests, l.spreadBuffer = spread(requests, l.spreadBuffer[:0])
	l.Keep(requests)
}

// refuses reads the items of a bundle, and refuses the bundle if it cannot read them. A thousand items with headers take
// a millisecond to read. The line of so large a bundle runs alone, so no other queue waits. Where messages are read one after
// another, all queues would wait.
func (l *part) refuses(p *push) bool {
	if p.sent == nil || p.bundle != nil || p.each != nil {
		return false
	}
	var f *failure.Failure
	if p.sent.Each {
		p.each, f = openEach(l.Desk, p)
	} else {
		p.bundle, f = p.sent.Items()
	}
	if f != nil {
		l.Refuse(&p.Request, f)
	}
	return f != nil
}

// Common reports whether no single push caused an error.
func (l *part) Common(err error) bool {
	return !ofBundle(err) && (l.Desk.Common(err) || errors.Is(err, fdbpq.ErrNoQueue))
}

// Plan prepares a transaction of pushes.
func (l *part) Plan(requests []desk.Work) (int, error) {
	if why := l.Reserve(); why != nil {
		return 0, desk.StoreFull(why)
	}
	takes := 0
	for _, w := range requests {
		if r := w.(*push); r.bundle != nil {
			l.items = append(l.items, r.bundle...)
		} else {
			l.items = append(l.items, r.item)
		}
	}
	for i := range l.items {
		takes += fdbpq.NewItemBytes(&l.items[i])
	}
	var full error
	l.requests = requests
	l.queue, l.admission, full = l.Receiving(len(l.items), takes)
	if full != nil && !slices.ContainsFunc(l.items, needsNoRoom) {
		l.Close(full)
		return len(requests), full // a look into the store would take some of the rest of its log
	}
	return 0, nil
}

// Ahead begins to read what the pushes need.
func (l *part) Ahead(tx kv.Tx) { l.queue.PrefetchPush(tx, l.items...) }

// Do pushes items.
func (l *part) Do(tx kv.Tx, _ *turns.Limits) (int, error) {
	tx = l.Metered(tx)
	if follows, err := l.follows(tx); follows || err != nil {
		return len(l.requests), cmp.Or(err, turns.ErrFollow)
	}
	var err error
	if l.pushed, err = l.queue.Push(tx, l.items...); err != nil {
		return len(l.requests), err
	}
	return refusedBundle(l.requests, l.pushed)
}

// Ran is the number of items.
func (l *part) Ran() (kind, n int) { return int(request.KindPush), len(l.items) }

// Close charges the rows of a transaction.
func (l *part) Close(result error) {
	l.Weigh(len(l.items))
	desk.EndAdmission(l.admission, result)
	clear(l.items)
	l.items, l.requests, l.queue, l.admission = l.items[:0], nil, fdbpq.Queue{}, nil
}

// needsNoRoom reports whether a store without room for new items may take the push: it may find its item there, or
// replace another item.
func needsNoRoom(item fdbpq.NewItem) bool {
	return item.MsgID != "" || item.Unique != "" || item.HandOver != nil
}

// follows reports whether the pushes have to wait for pushes under way: on a queue with a strict order, or whose bounds
// make pushes depend on the number of items.
func (l *part) follows(tx kv.Tx) (bool, error) {
	if !l.beside {
		return false, nil
	}
	config, err := l.Queue.Config(tx)
	return config.Strict || config.MaxLength > 0 || config.MaxBytes > 0, err
}

// Answer answers pushes.
func (l *part) Answer(requests []desk.Work, err error) (served int, more bool) {
	if err != nil {
		request.RefuseAll(l.Responder, requests, err)
		return len(requests), false
	}
	var tally request.Tally
	for i := range l.pushed {
		switch p := &l.pushed[i]; {
		case p.Err != nil:
		case p.Duplicate:
			tally[request.Duplicates]++
		default:
			tally[request.Pushed]++
		}
	}
	l.Stats.Moved(l.Queue.Name(), request.FlowIn, int(tally[request.Pushed]))
	l.Stats.Queues.Count(l.Queue.Name(), &tally)
	pushed := l.pushed
	for _, w := range requests {
		r := w.(*push)
		n := r.Count()
		if r.bundle != nil {
			l.answerBundle(r, pushed[:n])
		} else {
			l.answer(r, &pushed[0])
		}
		pushed = pushed[n:]
	}
	l.pushed = nil
	return len(requests), false
}

// happened counts a hand-over, and announces the events of a push.
func (l *part) happened(item *fdbpq.NewItem, p *fdbpq.Pushed) {
	if lease := item.HandOver; lease != nil && p.Err == nil && !p.Duplicate {
		l.Stats.Settled(lease.Queue, 1, &request.Tally{request.Acknowledged: 1})
	}
	l.Events.Items(p.Events)
}

func (l *part) answer(r *push, p *fdbpq.Pushed) {
	l.happened(&r.item, p)
	if p.Err != nil {
		l.Refuse(&r.Request, failure.Explain(p.Err))
		return
	}
	if r.within != nil {
		r.within.results[r.number] = codec.ResultOf(p)
	}
	if r.Msg.Reply != "" {
		l.out = codec.AppendPubAck(l.out[:0], r.Subject.Queue, p)
	}
	l.acknowledge(r)
}

// answerBundle answers a bundle, none of whose items was refused.
func (l *part) answerBundle(r *push, pushed []fdbpq.Pushed) {
	for i := range pushed {
		l.happened(&r.bundle[i], &pushed[i])
	}
	if r.Msg.Reply != "" {
		l.out = codec.AppendPubAcks(l.out[:0], r.Subject.Queue, pushed)
	}
	l.acknowledge(r)
}

// acknowledge sends the answer to a push and ends it.
func (l *part) acknowledge(r *push) {
	if r.Msg.Reply != "" {
		if err := l.Conn.Publish(r.Msg.Reply, l.out); err != nil {
			l.Log.Debug("answer lost", "subject", r.Msg.Reply, "error", err)
		}
	}
	l.Done(&r.Request, nil)
}
