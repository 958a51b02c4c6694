package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/explain"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/survey"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/protocol"
)

// explainer says why nothing moves. The rows of a queue tell what keeps its items; who asks for them, and what room the store
// has, bridges know.
type explainer struct {
	store  *fdbpq.Store
	waits  *waits
	asks   *request.Asks
	room   func(bytes int) error
	peers  *peers.Survey // nil: no other process opens the store
	places chan struct{} // of surveys that are under way
}

const (
	// surveyFor is how long the other bridges have to say who asks there: a look at a queue must not wait for one
	// that is away.
	surveyFor = 200 * time.Millisecond

	// maxSurveys bounds the surveys that are under way.
	maxSurveys = 64
)

func newExplainer(store *fdbpq.Store, waits *waits, asks *request.Asks, room func(bytes int) error) *explainer {
	return &explainer{store: store, waits: waits, asks: asks, room: room, places: make(chan struct{}, maxSurveys)}
}

// asking is who asks for the items of a queue, as bridges tell each other.
type asking struct {
	Waiting int          `json:"waiting"` // pops that wait
	Bands   []fdbpq.Band `json:"bands"`   // for which they wait, or for which somebody has asked lately
}

func (a *asking) add(b asking) {
	a.Waiting += b.Waiting
	for _, band := range b.Bands {
		if !slices.Contains(a.Bands, band) {
			a.Bands = append(a.Bands, band)
		}
	}
}

// maxTold bounds the bands of which a bridge tells: of pops that wait, and of those of a while ago.
const maxTold = 2 * protocol.MaxBands

// readAsking reads what another bridge has told. An answer without the number of waiting pops, as a bridge of another version may
// send, is not ok: it would count as no pops.
func readAsking(answer []byte) (_ asking, ok bool) {
	var told struct {
		Waiting *int         `json:"waiting"`
		Bands   []fdbpq.Band `json:"bands"`
	}
	if json.Unmarshal(answer, &told) != nil || told.Waiting == nil || len(told.Bands) > maxTold {
		return asking{}, false
	}
	n := *told.Waiting
	if n < 0 || n > 0 && len(told.Bands) == 0 {
		return asking{}, false
	}
	return asking{n, told.Bands}, true
}

// here is who asks at this bridge.
func (x *explainer) here(queue string) (a asking) {
	n, bands := x.waits.line.TakingAt(queue)
	a.add(asking{n, bands})
	a.add(asking{0, x.asks.Lately(queue)})
	return a
}

// tell answers another bridge that asks for who asks here.
func (x *explainer) tell(queue []byte) []byte {
	answer, err := json.Marshal(x.here(string(queue)))
	if err != nil {
		return nil // impossible: these are numbers
	}
	return answer
}

// explained is an explanation on its way.
type explained struct {
	explain.Facts
	queue  fdbpq.Queue
	band   *fdbpq.Band       // of the item that is explained; nil: of a queue
	dead   bool              // it is about dead letters
	letter *fdbpq.ID         // or about one
	leases fdbpq.Explanation // who has the items that are leased
	asking asking            // who asks, as far as bridges have said
	others []string          // that have the store open, and were not asked
	more   bool              // there are more of them
}

// queueOf explains a queue, as far as this bridge knows.
func (x *explainer) queueOf(r kv.Reader, q fdbpq.Queue, found *survey.Found) (e explained, err error) {
	e.queue, e.dead = q, survey.TakesDeadLetters(q.Name(), &found.Config)
	e.of(&found.Inspection)
	if e.Explanation, err = found.Explain(found.OldestLease, found.Held); err != nil {
		return e, err
	}
	e.leases = found.Leases(found.OldestLease, found.Held)
	x.refuses(&e)
	return e, x.asked(r, &e)
}

// cause is the word for it.
func (x *explainer) cause(r kv.Reader, q fdbpq.Queue, found *survey.Found) (protocol.Cause, error) {
	e, err := x.queueOf(r, q, found)
	return e.Word(), err
}

// itemOf explains an item, as far as this bridge knows.
func (x *explainer) itemOf(r kv.Reader, q fdbpq.Queue, item *fdbpq.StoredItem) (e explained, err error) {
	e.queue, e.band, e.Item = q, &fdbpq.Band{Low: item.Priority, High: item.Priority}, true
	if d := item.Dead; d != nil {
		own := item.ID
		e.dead, e.letter = true, &own
		e.Origin, e.Died = d.Origin, cmp.Or(item.Cause, d.Reason)
	}
	e.Explanation, err = q.ExplainItem(r, item)
	if err == nil && e.Cause == fdbpq.ReasonHeld {
		e.Link, e.Since, err = link.New(x.store).HolderOf(r, q, item)
	}
	if err != nil || e.Cause != fdbpq.ReasonFlows {
		return e, err
	}
	found, err := survey.Read(r, q, survey.Looks{Leases: survey.Deep.Leases})
	if err != nil || found == nil {
		return e, err
	}
	e.of(&found.Inspection)
	e.leases = found.Leases(found.OldestLease, found.Held)
	return e, x.asked(r, &e)
}

func (e *explained) of(i *fdbpq.Inspection) {
	e.Ready, e.Leased, e.Delayed, e.Rate = i.Ready, i.Leased, i.Delayed, i.Config.Rate
}

// refuses says why the queue takes no item.
func (x *explainer) refuses(e *explained) {
	if why := x.room(0); why != nil {
		e.Full = failure.Explain(storeFull(why))
	} else if f := x.waits.tenants.OfQueue(e.queue.Name()).Full(); f != nil {
		e.Full = f
	} else if e.Refuses != nil {
		e.Full = failure.Explain(e.Refuses)
	}
}

// asked looks for pops of this bridge that take the items, and, if there are none, for other bridges to ask. Dead letters wait
// for a person to look at them, even if another bridge has pops of their queue.
func (x *explainer) asked(r kv.Reader, e *explained) error {
	if e.Cause != fdbpq.ReasonFlows {
		return nil
	}
	e.asking = x.here(e.queue.Name())
	if there, err := e.someone(r); err != nil || there {
		return err
	}
	if e.dead {
		e.Explanation = fdbpq.Explanation{Cause: explain.DeadLetters, Item: e.letter, Refuses: e.Refuses}
		return nil
	}
	if x.peers != nil {
		others, all, err := x.store.Others(r)
		if err != nil {
			return err
		}
		e.others, e.more = others, !all
	}
	e.nobody(len(e.others), e.more)
	return nil
}

// someone reports whether one of the pops would get an item.
func (e *explained) someone(r kv.Reader) (bool, error) {
	if e.band != nil {
		return slices.ContainsFunc(e.asking.Bands, func(b fdbpq.Band) bool { return b.Low <= e.band.Low && e.band.High <= b.High }), nil
	}
	if slices.Contains(e.asking.Bands, fdbpq.AllPriorities) {
		return true, nil
	}
	return e.queue.Offers(r, e.asking.Bands)
}

// nobody says what keeps items for which no pop is known.
func (e *explained) nobody(silent int, more bool) {
	e.Waiting, e.Bands, e.Silent = e.asking.Waiting, e.asking.Bands, silent
	switch {
	case silent > 0 || more:
		e.Cause = explain.Unknown
	case len(e.Bands) > 0:
		e.Cause = fdbpq.ReasonBand
	case e.leases.Cause != "":
		e.Explanation = e.leases
	default:
		e.Cause = explain.NoWorkers
	}
}

// open reports whether others have to be asked.
func (e *explained) open() bool { return len(e.others) > 0 }

// complete asks the others.
func (x *explainer) complete(e *explained) {
	ctx, cancel := context.WithTimeout(context.Background(), surveyFor)
	defer cancel()
	select {
	case x.places <- struct{}{}:
		defer func() { <-x.places }()
	case <-ctx.Done():
		return
	}
	answers, silent := x.peers.Ask(ctx, []byte(e.queue.Name()), e.others)
	for _, answer := range answers {
		there, ok := readAsking(answer)
		if !ok {
			silent++
		}
		e.asking.add(there)
	}
	found := false
	reading, done := context.WithTimeout(context.Background(), txTimeoutDown) // the other time is over when one is silent
	defer done()
	err := x.store.View(reading, func(r kv.Reader) (err error) {
		found, err = e.someone(r)
		return err
	})
	switch {
	case found:
		e.Explanation = fdbpq.Explanation{Cause: fdbpq.ReasonFlows}
	case err != nil:
		e.nobody(silent, true)
	default:
		e.nobody(silent, e.more)
	}
}
