package bridge

import (
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// waits are the pops that wait for an item.
type waits struct {
	*request.Responder
	tenants  *tenants.Tenants // nil: there are none
	sight    *listening.Sight
	unseen   time.Duration // the longest wait of a client that the bridge does not see
	line     *waiting.Pops[*pop]
	lookOnce func(*pop) // serves a pop that does not wait
}

// init begins with no waiting pop. serve tries to serve the pops of a queue.
func (w *waits) init(re *request.Responder, sight *listening.Sight, unseen time.Duration, places int, serve func(queue string), lookOnce func(*pop)) {
	w.Responder, w.sight, w.unseen, w.lookOnce = re, sight, unseen, lookOnce
	w.line = waiting.New(waiting.Options[*pop]{
		Places: places,
		Bands:  protocol.MaxBands,
		End:    w.end,
		Serve:  serve,
		Gone:   w.sweep,
		Tenant: w.tenant,
	})
}

// tenant returns the tenant of a queue, and how many of its pops may wait.
func (w *waits) tenant(queue string) (name string, most int) {
	if t := w.tenants.OfQueue(queue); t != nil {
		return subjects.Tenant(queue), int(t.Quotas().Waiting)
	}
	return "", 0
}

// at is how many pops wait at a queue.
func (w *waits) at(queue string) int { return w.line.WaitingAt(queue) }

// A waiting pop is answered a little before its time is up, because the answer has
// to arrive in time.
const (
	waitMargin   = 10 * time.Millisecond
	waitFraction = 10 // of the time, when that is less

	// A repeated pop has one more transaction at the end.
	waitMarginRepeated = 10 * waitMargin
)

// waitEnds is when a pop that came at a time is answered that nothing arrived.
func waitEnds(came time.Time, wait time.Duration, repeats bool) time.Time {
	margin := waitMargin
	if repeats {
		margin = waitMarginRepeated
	}
	return came.Add(wait - min(margin, wait/waitFraction))
}

// add makes a pop wait. It is not in flight any more. The pop of a +NXT has settled
// its lease, so the next settlement of that lease may start.
func (w *waits) add(r *pop) {
	w.Gate.Leave(&r.Request)
	r.leaveOrder()
	r.keep()
	r.BeginWait()
	wait, seen := r.ask.Wait, w.sight.Sees(listening.Client{Queue: r.Subject.Queue, Reply: r.Msg.Reply})
	if !seen {
		wait = min(wait, w.unseen)
	}
	r.place = waiting.NewPop(waiting.Wait{
		Queue: r.Subject.Queue, Band: r.ask.Band, Reply: r.Msg.Reply, Ends: waitEnds(r.Arrived, wait, r.ask.Repeats), Unseen: !seen, Looks: r.peeks,
	}, r)
	if err := w.line.Add(r.place); err != nil {
		w.end(r, err)
	}
}

// keep lets a waiting pop that found nothing wait on.
func (w *waits) keep(r *pop) {
	r.asked, r.sure = false, false
	r.AbandonAttempt()
	if err := w.line.Keep(r.place); err != nil {
		w.end(r, err)
	}
}

// end answers a pop whose wait has ended without an item, unless its client has
// gone.
func (w *waits) end(r *pop, why error) {
	if errors.Is(why, waiting.ErrGone) {
		w.Done(&r.Request, errGone)
		return
	}
	if errors.Is(why, waiting.ErrOver) && r.ask.Repeats {
		if w.lookOnceMore(r) {
			return
		}
		why = errShutdown
	}
	if t := w.tenants.OfQueue(r.Subject.Queue); t != nil && errors.Is(why, waiting.ErrQuota) {
		why = t.Refused(protocol.ReasonQuotaWaiting)
	}
	w.Refuse(&r.Request, whyEnded(why))
}

// lookOnceMore runs a transaction at the end of a repeated pop's wait, so that finding nothing is final. It returns
// false if the bridge is shutting down.
func (w *waits) lookOnceMore(r *pop) bool {
	if !w.Gate.Return(&r.Request) {
		return false
	}
	r.BeginAttempt(time.Now())
	r.ask.Wait, r.place, r.waited, r.asked = 0, nil, true, false
	w.lookOnce(r)
	return true
}

var errWaited = &failure.Failure{Code: 408, Text: waiting.ErrOver.Error()}

// whyEnded is the answer to a pop whose wait has ended, or could not begin.
func whyEnded(why error) *failure.Failure {
	var full *waiting.FullError
	switch {
	case errors.Is(why, waiting.ErrOver):
		return errWaited
	case errors.As(why, &full):
		return &failure.Failure{Code: 409, Text: why.Error()}
	}
	return failure.Explain(why)
}

// askFirst is how many waiting pops the bridge asks about before a transaction serves them. Usually one item has
// arrived. If there are items for more pops, the transaction asks about those.
const askFirst = 8

// awayPause is the time between looks whether the connection is back.
const awayPause = 100 * time.Millisecond

// attempt is the attempt of a transaction to serve waiting pops. It begins with a question about the clients of the first ones.
type attempt struct {
	waiting.Attempt[*pop]
	asked    int                 // the first pops, about which the question is
	question *listening.Question // nil: there is none
	silent   bool                // the server did not say in time which clients have gone
}

// attempt returns the waiting pops that the next transaction tries to serve, see hear. arrived says that there may be an item for
// them.
//
// Without a connection no pop can be served, and it is unknown which clients will be back.
func (w *waits) attempt(queue string, arrived bool) (a attempt) {
	if w.sight.Away() {
		if w.line.WaitingAt(queue) > 0 {
			w.line.Retry(queue, awayPause)
		}
		return a
	}
	a.Attempt = w.line.Attempt(queue)
	if arrived || !a.Watched {
		w.ask(&a, askFirst)
	}
	return a
}

// ask asks about the clients of the first pops.
func (w *waits) ask(a *attempt, first int) {
	a.asked = min(first, len(a.Pops))
	replies := make([]string, a.asked)
	for i, r := range a.Pops[:a.asked] {
		replies[i] = r.Msg.Reply
	}
	a.question = w.sight.Ask(replies)
}

// hear drops pops whose clients have gone. If all clients of a question have gone, it asks about the next ones, as far as it may.
// Otherwise it reports false.
func (w *waits) hear(a *attempt, queue string, mayAsk bool) (enough bool) {
	for enough = w.dropGone(a); !enough; enough = w.dropGone(a) {
		if len(a.Pops) == 0 {
			a.Attempt = w.line.Attempt(queue)
		}
		if len(a.Pops) > 0 && !mayAsk {
			break
		}
		w.ask(a, len(a.Pops))
	}
	now := time.Now()
	for _, r := range a.Pops {
		r.BeginAttempt(now)
	}
	return enough
}

// dropGone waits for the answer to the question of an attempt, and drops pops whose clients have gone. It reports whether one of
// the others may be there: the server has not answered in time, or there is no question, or no pop.
func (w *waits) dropGone(a *attempt) bool {
	if a.question == nil || a.asked == 0 {
		return true
	}
	gone, answered := a.question.Gone()
	nobody, there, left := set(gone), false, a.Pops[:0]
	for i, r := range a.Pops {
		if i < a.asked && nobody[r.Msg.Reply] {
			w.line.Remove(r.place)
			w.Done(&r.Request, errGone)
			continue
		}
		r.asked = i < a.asked && answered
		there = there || i < a.asked
		left = append(left, r)
	}
	a.Pops, a.question, a.silent = left, nil, !answered
	return there || !answered
}
