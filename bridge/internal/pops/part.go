package pops

import (
	"errors"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/explain"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

// Shared is what the parts of all pops share.
type Shared struct {
	Waits     *Waits
	Owners    *peers.Owners
	Asks      *explain.Asks
	Exclusive bool              // only this process can open the store
	GiveBack  func(fdbpq.Lease) // returns an item that did not reach its consumer
	Sent      *listening.Sent   // the leases of bundles
}

// New returns the part of pops in a turn.
func New(l *desk.Desk, all Shared) desk.Part {
	return &part{
		Shared: all, transaction: transaction{Desk: l, sight: all.Waits.sight},
		answers: answers{Desk: l, delivery: delivery{all.GiveBack, all.Sent}},
	}
}

// part is the part of a queue's pops in a turn: first the waiting pops, in the order in which they came, then the new ones. A pop
// that finds nothing gets that answer, or waits. The part also settles leases, before it pops. Settlements alone give no reason to
// try the waiting pops again: an item that a settlement makes ready ends the queue's watch.
type part struct {
	Shared
	transaction
	answers answers

	// What the line has.
	taken   []desk.Work  // settlements, then new pops
	settles int          // how many of them are settlements
	alone   bool         // the turn has no other line
	unsure  bool         // more has to be asked about the clients of waiting pops
	unowned bool         // the pops are served, although another bridge owns the queue
	all     []desk.Work  // of Todo
	limits  turns.Limits // of a transaction without other lines
}

// Open turns to the pops and settlements of a queue, and asks which clients of waiting pops have gone.
func (l *part) Open(s turns.Start, requests []desk.Work) {
	l.Begin(s.Queue)
	l.taken, l.settles, l.alone, l.attempt, l.tried, l.unowned = requests, 0, s.Alone, attempt{}, false, false
	for l.settles < len(requests) && IsSettlement(requests[l.settles]) {
		l.settles++
	}
	if s.Woken || l.settles < len(requests) {
		l.attempt = newAttempt(l.Waits, s.Queue, s.Woken)
	}
}

// IsSettlement reports whether a request of the line is a settlement: all others are pops, and edits have turns of their own.
// Settlements go ahead of pops.
func IsSettlement(w desk.Work) bool { return popOf(w) == nil }

// Todo puts the waiting pops before the new ones. If all clients have gone that it has asked about, it asks about more of them,
// unless other lines would wait for the answer.
func (l *part) Todo() []desk.Work {
	l.unsure = !l.attempt.hear(l.alone)
	if len(l.attempt.Pops) == 0 {
		return l.taken
	}
	clear(l.all)
	l.all = append(l.all[:0], l.taken[:l.settles]...)
	for _, r := range l.attempt.Pops {
		l.all = append(l.all, r)
	}
	l.all = append(l.all, l.taken[l.settles:]...)
	return l.all
}

// errUnsure has a line run alone.
var errUnsure = errors.New("more has to be asked about the clients of waiting pops")

// Plan prepares a transaction of settlements and pops.
func (l *part) Plan(requests []desk.Work) (int, error) {
	if l.unsure {
		return len(requests), errUnsure
	}
	l.limits = turns.Limits{Requests: l.Batch.Requests, Bytes: l.Batch.Bytes}
	l.begin(&l.limits)
	l.settling, l.todo, l.waited = l.settling[:0], l.todo[:0], 0
	keeps := 0
	for _, w := range requests {
		r := popOf(w)
		if r == nil {
			change := w.(desk.Change)
			l.settling = append(l.settling, change)
			keeps += change.Keeps()
			continue
		}
		if r.place != nil {
			l.waited++
		}
		l.todo = append(l.todo, r)
	}
	if keeps > 0 {
		l.kept = l.Tenant().Open()
		l.kept.ToKeep(keeps)
	}
	return 0, nil
}

// Ahead begins the reads of the transaction.
func (l *part) Ahead(tx kv.Tx) {
	if leases := l.leases(); len(leases) > 0 {
		l.Desk.Queue.PrefetchLeases(tx, leases...)
	}
	if len(l.todo) > 0 && !l.todo[0].peeks {
		l.Desk.Queue.PrefetchPop(tx, l.selection(l.alike(l.todo)), l.todo[0].ask.Lease)
	}
}

// Ran counts a transaction without pops as one of changes.
func (l *part) Ran() (kind, n int) {
	if len(l.todo) == 0 {
		return int(request.KindChange), len(l.settling)
	}
	return int(request.KindPop), len(l.settling) + l.served
}

// Close charges the rows of a transaction.
func (l *part) Close(result error) {
	l.question.drop()
	l.Weigh(len(l.settling) + max(l.served, l.items))
	desk.EndAdmission(l.kept, result)
	l.work, l.queue, l.kept = nil, fdbpq.Queue{}, nil
}

// isAnswer reports whether the error is the answer to one pop. Otherwise it is an error of the store.
func isAnswer(err error) bool {
	var f *failure.Failure
	var lost *fdbpq.LostError
	return errors.As(err, &f) || errors.As(err, &lost) || errors.Is(err, fdbpq.ErrPopIDReused) ||
		errors.Is(err, fdbpq.ErrRemembered) || errors.Is(err, fdbpq.ErrNoRoom)
}

// Mend has a transaction run again without the pop that the store refuses, or with fewer items for the pop whose items do not fit
// into an answer. A pop that makes a transaction fail for another reason runs alone, and then gets fewer bytes.
func (l *part) Mend(requests []desk.Work, at int, err error) (left []desk.Work, again bool) {
	if errors.Is(err, errOwned) {
		return l.passOn(requests), true
	}
	if len(requests) == 1 {
		at = 0
	}
	if at == len(requests) || IsSettlement(requests[at]) {
		return requests, false
	}
	r := popOf(requests[at])
	switch {
	case errors.Is(err, errCut):
		return requests, true
	case isAnswer(err) && r.refused == nil:
		r.refused = failure.Explain(err)
		return requests, true
	case r.careful:
		return requests, false
	}
	r.careful = true
	return requests, len(requests) == 1
}

// Answer answers the requests of a transaction. Waiting pops that found nothing wait on.
func (l *part) Answer(requests []desk.Work, err error) (served int, more bool) {
	if err != nil {
		l.fail(err)
	}
	l.tried = true
	l.Events.Items(l.events)
	l.Stats.Moved(l.Desk.Queue.Name(), request.FlowOut, l.items)
	l.noteAsks()
	l.answerSettled()
	for _, r := range l.todo[:l.served] {
		switch waits := r.waitsOn(); {
		case waits && r.place != nil:
			l.Waits.keep(r)
		case waits:
			l.Waits.add(r)
		case r.place != nil:
			l.Waits.line.Remove(r.place)
			fallthrough
		default:
			l.answers.answerPop(r)
		}
	}
	if l.watch != nil {
		l.attempt.Watched = true
		l.Waits.line.Watch(l.Desk.Queue.Name(), l.watch)
	}
	if l.retry > 0 {
		l.Waits.line.Retry(l.Desk.Queue.Name(), l.retry)
	}
	served, more = len(l.settling)+l.served, l.more
	l.forget()
	return served, more
}

// forget drops what a transaction has had.
func (l *part) forget() {
	clear(l.settling)
	clear(l.todo)
	l.settling, l.todo = l.settling[:0], l.todo[:0]
	l.begin(nil)
}

// Return has waiting pops wait on. The other requests go back to their line.
func (l *part) Return(requests []desk.Work) (back []desk.Work, more bool) {
	more = !l.tried && len(l.attempt.Beyond) > 0
	for _, w := range requests {
		if r := popOf(w); r != nil && r.place != nil {
			l.Waits.keep(r)
			more = true
		} else {
			back = append(back, w)
		}
	}
	return back, more
}

// fail has all requests of the transaction fail.
func (l *part) fail(err error) {
	f := failure.Explain(err)
	for _, r := range l.settling {
		r.Head().Failure = f
	}
	for _, r := range l.todo {
		r.forget()
		r.Failure = f
	}
	l.begin(nil)
	l.served, l.more = len(l.todo), len(l.attempt.Beyond) > 0
}

// answerSettled answers the settlements of a transaction, and counts its items. When the pop of a +NXT runs again, its
// lease has been acknowledged.
func (l *part) answerSettled() {
	ended := len(l.acked) + l.ended
	tally := request.Tally{request.Popped: int64(l.popped), request.Acknowledged: int64(ended)}
	for _, r := range l.acked {
		r.acks.done = true
		tally.Charge(r.acks.reserved, r.acks.lease.Spent)
		r.Refusal = request.AsService // only its pop can fail from now on
	}
	for _, r := range l.settling {
		if r.EndsLease() {
			ended++
		}
		r.Tally(&tally)
	}
	l.Stats.Settled(l.Desk.Queue.Name(), ended, &tally)
	for _, r := range l.settling {
		desk.AnswerChange(l.Responder, r)
	}
}

// noteAsks notes the bands of an existing queue for which clients have asked.
func (l *part) noteAsks() {
	last := (*pop)(nil) // most pops of a transaction ask for the same
	for _, r := range l.todo[:l.served] {
		unknown := r.Failure != nil && r.Failure.Reason == protocol.ReasonUnknown
		if r.peeks || unknown || last != nil && last.ask.Band == r.ask.Band {
			continue
		}
		l.Asks.Note(l.Desk.Queue.Name(), r.ask.Band, explain.AsksLast)
		last = r
	}
}

// errOwned ends a transaction of pops on a queue that another bridge owns.
var errOwned = errors.New("another bridge pops the queue")

// Again notes that the transaction has lost a conflict. If another bridge owns the queue, the transaction ends, and the
// owner gets the pops: here they would lose again and again.
func (l *part) Again() error {
	if l.Exclusive { // it conflicted with another transaction of this bridge
		return nil
	}
	l.Owners.Lost(l.Desk.Queue.Name())
	if owner, own := l.Owners.Owner(l.Desk.Queue.Name()); owner == "" || own || l.unowned {
		return nil
	}
	return errOwned
}

// passOn passes the new pops on to the owner of the queue. Pops that wait, or have waited, stay: their time runs here, and
// the rest of their messages would ask for something else.
func (l *part) passOn(requests []desk.Work) (kept []desk.Work) {
	l.unowned = true
	for _, w := range requests {
		r := popOf(w)
		if r == nil || r.place != nil || r.waited || r.peeks || r.acks != nil || !l.Owners.Pass(l.Desk.Queue.Name(), r.Msg) {
			kept = append(kept, w)
			continue
		}
		l.Gate.Leave(&r.Request)
		r.End()
	}
	return kept
}
