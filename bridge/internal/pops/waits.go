package pops

import (
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// WaitsOptions are what a [Waits] works with.
type WaitsOptions struct {
	Responder *request.Responder
	Tenants   *tenants.Tenants // nil: there are none
	Sight     *listening.Sight
	Places    int                // how many pops may wait
	Unseen    time.Duration      // the longest wait of a client that the bridge does not see
	Serve     func(queue string) // has the waiting pops of a queue take a turn
	LookOnce  func(desk.Work)    // has a pop take a turn that does not wait any more
}

// Waits has the pops that wait for an item.
type Waits struct {
	*request.Responder
	tenants  *tenants.Tenants
	sight    *listening.Sight
	unseen   time.Duration
	line     *waiting.Pops[*pop]
	lookOnce func(desk.Work)
}

// NewWaits returns waits without a pop.
func NewWaits(o WaitsOptions) *Waits {
	w := &Waits{Responder: o.Responder, tenants: o.Tenants, sight: o.Sight, unseen: o.Unseen, lookOnce: o.LookOnce}
	w.line = waiting.New(waiting.Options[*pop]{
		Places: o.Places,
		Bands:  protocol.MaxBands,
		End:    w.end,
		Serve:  o.Serve,
		Gone:   w.Sweep,
		Tenant: w.Tenant,
	})
	return w
}

// Close ends all waits. Until Open, no pop may wait.
func (w *Waits) Close(why error) { w.line.Close(why) }

// Open lets pops wait again.
func (w *Waits) Open() { w.line.Open() }

// Waiting is how many pops wait, and Unseen how many of them for a short time only, because nobody sees their clients.
func (w *Waits) Waiting() int { return w.line.Waiting() }
func (w *Waits) Unseen() int  { return w.line.Unseen() }

// Taking are the queues of a range of names at which pops wait to take items, with their numbers.
func (w *Waits) Taking(inside func(queue string) bool) map[string]int { return w.line.Taking(inside) }

// TakingAt is how many pops wait at a queue to take items, and for which bands.
func (w *Waits) TakingAt(queue string) (n int, bands []fdbpq.Band) { return w.line.TakingAt(queue) }

// Local reports whether questions about clients cost nothing, because the NATS server is in this process.
func (w *Waits) Local() bool { return w.sight.Local() }

// Tenant returns the tenant of a queue, and how many of its pops may wait.
func (w *Waits) Tenant(queue string) (name string, most int) {
	if t := w.tenants.OfQueue(queue); t != nil {
		return subjects.Tenant(queue), int(t.Quotas().Waiting)
	}
	return "", 0
}

// Queues are the queues at which pops wait.
func (w *Waits) Queues() []string { return w.line.Queues() }

// At is how many pops wait at a queue.
func (w *Waits) At(queue string) int { return w.line.WaitingAt(queue) }

// A waiting pop is answered a little before its time is up, because the answer has
// to arrive in time.
const (
	waitMargin   = 10 * time.Millisecond
	waitFraction = 10 // of the time, when that is less

	// A repeated pop has one more transaction at the end.
	waitMarginRepeated = 10 * waitMargin
)

// WaitEnds is when a request that came at a time is answered that nothing arrived.
func WaitEnds(came time.Time, wait time.Duration) time.Time { return waitEnds(came, wait, false) }

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
func (w *Waits) add(r *pop) {
	w.Gate.Leave(&r.Request)
	r.leaveOrder()
	r.keep()
	r.BeginWait()
	wait, unseen := w.Bound(r.Subject.Queue, r.Msg.Reply, r.ask.Wait)
	r.place = waiting.NewPop(waiting.Wait{
		Queue: r.Subject.Queue, Band: r.ask.Band, Reply: r.Msg.Reply, Ends: waitEnds(r.Arrived, wait, r.ask.Repeats), Unseen: unseen, Looks: r.peeks,
	}, r)
	if err := w.line.Add(r.place); err != nil {
		w.end(r, err)
	}
}

// keep lets a waiting pop that found nothing wait on.
func (w *Waits) keep(r *pop) {
	r.asked, r.most, r.careful = false, 0, false // other items may be there next time
	r.AbandonAttempt()
	if err := w.line.Keep(r.place); err != nil {
		w.end(r, err)
	}
}

// end answers a pop whose wait has ended without an item, unless its client has
// gone.
func (w *Waits) end(r *pop, why error) {
	if errors.Is(why, waiting.ErrGone) {
		w.Done(&r.Request, ErrGone)
		return
	}
	if errors.Is(why, waiting.ErrOver) && r.ask.Repeats {
		if w.lookOnceMore(r) {
			return
		}
		why = ErrShutdown
	}
	w.Refuse(&r.Request, w.Refusal(r.Subject.Queue, why))
}

// Refusal is the answer to a request of a queue whose wait has ended, or could not begin.
func (w *Waits) Refusal(queue string, why error) *failure.Failure {
	if t := w.tenants.OfQueue(queue); t != nil && errors.Is(why, waiting.ErrQuota) {
		why = t.Refused(protocol.ReasonQuotaWaiting)
	}
	return whyEnded(why)
}

// Bound is how long a request may wait that asks for a time, and whether nobody sees its client.
func (w *Waits) Bound(queue, reply string, wait time.Duration) (most time.Duration, unseen bool) {
	if w.sight.Sees(listening.Client{Queue: queue, Reply: reply}) {
		return wait, false
	}
	return min(wait, w.unseen), true
}

// lookOnceMore runs a transaction at the end of a repeated pop's wait, so that finding nothing is final. It returns
// false if the bridge is shutting down.
func (w *Waits) lookOnceMore(r *pop) bool {
	if !w.Gate.Return(&r.Request) {
		return false
	}
	r.BeginAttempt(time.Now())
	r.ask.Wait, r.place, r.waited, r.asked = 0, nil, true, false
	w.lookOnce(r)
	return true
}

// ErrShutdown ends the waits of pops when the bridge drains.
var ErrShutdown = &failure.Failure{Code: 409, Text: "the bridge is shutting down: ask again", Description: protocol.DescriptionShutdown}

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

// Sweep returns the reply subjects of clients that have gone. It also finds out which clients are not seen any more, and ends their
// waits soon.
func (w *Waits) Sweep(of []waiting.Wait) (gone []string) { return w.Gone(of, w.line.Unsee) }

// Gone is Sweep of other waits.
func (w *Waits) Gone(of []waiting.Wait, unsee func(unseen func(*waiting.Wait) bool, ends time.Time)) (gone []string) {
	clients := make([]listening.Client, len(of))
	for i := range of {
		clients[i] = clientOf(&of[i])
	}
	gone, hidden := w.sight.Sweep(clients)
	if hidden {
		unsee(func(at *waiting.Wait) bool { return !w.sight.Sees(clientOf(at)) }, time.Now().Add(w.unseen))
	}
	return gone
}

func clientOf(w *waiting.Wait) listening.Client {
	return listening.Client{Queue: w.Queue, Reply: w.Reply}
}
