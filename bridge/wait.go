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

// attempt returns the waiting pops that the next transaction tries to serve, without those whose clients it finds
// to have gone. arrived says that there may be an item for them. answered is false if the server did not say in
// time which clients have gone.
//
// Without a connection no pop can be served, and it is unknown which clients will be back.
func (w *waits) attempt(queue string, arrived bool) (a waiting.Attempt[*pop], answered bool) {
	if w.sight.Away() {
		if w.line.WaitingAt(queue) > 0 {
			w.line.Retry(queue, awayPause)
		}
		return a, true
	}
	a, answered = w.line.Attempt(queue), true
	for n := askFirst; len(a.Pops) > 0 && (arrived || !a.Watched); n = len(a.Pops) {
		there := false
		if a.Pops, there, answered = w.present(a.Pops, min(n, len(a.Pops))); there || !answered {
			break
		}
		if len(a.Pops) == 0 {
			a = w.line.Attempt(queue)
		}
	}
	now := time.Now()
	for _, r := range a.Pops {
		r.BeginAttempt(now)
	}
	return a, answered
}
