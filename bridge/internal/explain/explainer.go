// Package explain finds why nothing of a queue moves, or why an item is not handed out, and says it in words.
//
// The rows of a queue tell what keeps its items. Who asks for them, and what room the store has, bridges know: this one,
// and others that have the store open, which it asks. A bridge that stays silent, or whose answer cannot be read, may have
// pops: then the cause is that nothing is known, never that there are no workers.
package explain

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/survey"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/protocol"
)

// Options are what an Explainer asks.
type Options struct {
	Store *fdbpq.Store

	// Waiting are the pops that wait at this bridge to take items of a queue, and Lately the bands for which pops have asked
	// here a while ago.
	Waiting func(queue string) (n int, bands []fdbpq.Band)
	Lately  func(queue string) (bands []fdbpq.Band, asked time.Time)

	// Recent is how the last leases of a queue ended, as far as this bridge knows: since it Began.
	Recent func(queue string) request.Recent
	Began  time.Time

	// Full says why neither the store nor the owner of a queue has room for another item, or nil.
	Full func(queue string) *failure.Failure
}

// Others are the other bridges that have the store open. Ask returns the answers of those that have answered in time, and how
// many have not.
type Others interface {
	Ask(ctx context.Context, question []byte, of []string) (answers [][]byte, silent int)
}

// Explainer says why nothing moves.
type Explainer struct {
	Options
	others Others        // nil: no other process opens the store
	places chan struct{} // of surveys that are under way
}

const (
	// surveyFor is how long the other bridges have to say who asks there: a look at a queue must not wait for one
	// that is away.
	surveyFor = 200 * time.Millisecond

	// readFor is how long the look at the store behind it takes at most.
	readFor = time.Second

	// maxSurveys bounds the surveys that are under way.
	maxSurveys = 64
)

// New returns an Explainer that asks no other bridge.
func New(o Options) *Explainer {
	return &Explainer{Options: o, places: make(chan struct{}, maxSurveys)}
}

// AskOthers has the Explainer ask the other bridges, from now on.
func (x *Explainer) AskOthers(others Others) { x.others = others }

// here is who asks at this bridge, and what became of the last items.
func (x *Explainer) here(queue string) (a asking) {
	n, bands := x.Waiting(queue)
	lately, asked := x.Lately(queue)
	a.add(&asking{Waiting: n, Bands: bands, recent: recent{asked, x.Began, x.Recent(queue)}})
	a.add(&asking{Bands: lately})
	return a
}

// Tell answers another bridge that asks for who asks here.
func (x *Explainer) Tell(queue []byte) []byte {
	here := x.here(string(queue))
	answer, err := here.tell()
	if err != nil {
		return nil // impossible: these are numbers and a text
	}
	return answer
}

// Queue explains a queue, as far as this bridge knows.
func (x *Explainer) Queue(r kv.Reader, q fdbpq.Queue, found *survey.Found) (e Explained, err error) {
	e.queue, e.dead, e.asking = q, survey.TakesDeadLetters(q.Name(), &found.Config), x.here(q.Name())
	e.of(&found.Inspection)
	e.ExpiresAfter = x.Store.ExpiresAfter(&found.Config)
	if e.Explanation, err = found.Explain(found.OldestLease, found.Held); err != nil {
		return e, err
	}
	e.leases = found.Leases(found.OldestLease, found.Held)
	x.refuses(&e)
	if err := x.asked(r, &e); err != nil {
		return e, err
	}
	return e, x.failing(r, &e, found)
}

// Cause is the word for it.
func (x *Explainer) Cause(r kv.Reader, q fdbpq.Queue, found *survey.Found) (protocol.Cause, error) {
	e, err := x.Queue(r, q, found)
	return e.Word(), err
}

// Item explains an item, as far as this bridge knows.
func (x *Explainer) Item(r kv.Reader, q fdbpq.Queue, item *fdbpq.StoredItem) (e Explained, err error) {
	e.queue, e.band, e.Item = q, &fdbpq.Band{Low: item.Priority, High: item.Priority}, true
	if d := item.Dead; d != nil {
		own := item.ID
		e.dead, e.letter = true, &own
		e.Origin, e.Died = d.Origin, cmp.Or(item.Cause, d.Reason)
	}
	if item.Dying {
		e.Died = item.Cause
	}
	e.Explanation, err = q.ExplainItem(r, item)
	e.Past = e.Failed
	if err == nil && e.Cause == fdbpq.ReasonHeld {
		e.Link, e.Since, err = link.New(x.Store).HolderOf(r, q, item)
	}
	if err != nil || e.Cause != fdbpq.ReasonFlows {
		return e, err
	}
	found, err := survey.Read(r, q, survey.Looks{Leases: survey.Deep.Leases})
	if err != nil || found == nil {
		return e, err
	}
	e.of(&found.Inspection)
	e.leases, e.asking = found.Leases(found.OldestLease, found.Held), x.here(q.Name())
	return e, x.asked(r, &e)
}

// failing looks at the items of a queue for those that have failed, where there may be some, and nothing else keeps them. Where all
// are delayed it says how many of these have failed, though others succeed.
func (x *Explainer) failing(r kv.Reader, e *Explained, found *survey.Found) (err error) {
	switch e.Cause {
	case fdbpq.ReasonFlows, fdbpq.ReasonDelayed, fdbpq.ReasonLeased, Unknown:
	default:
		return nil
	}
	if e.dead {
		return nil
	}
	if e.asking.recent.Failures == 0 && found.Delayed == 0 || !e.asking.recent.mayFail() && e.Cause != fdbpq.ReasonDelayed {
		return nil
	}
	if e.Failing, err = fdbpq.FailingOf(&found.Inspection); err != nil || !e.fails() {
		return err
	}
	if x.others != nil && e.others == nil { // another bridge may know of an acknowledgement
		others, all, err := x.Store.Others(r)
		if err != nil {
			return err
		}
		e.others, e.more = others, !all
	}
	e.fail()
	return nil
}

// refuses says why the queue takes no item.
func (x *Explainer) refuses(e *Explained) {
	if e.Full = x.Full(e.queue.Name()); e.Full == nil && e.Refuses != nil {
		e.Full = failure.Explain(e.Refuses)
	}
}

// asked looks for pops of this bridge that take the items, and, if there are none, for other bridges to ask. Dead letters wait
// for a person to look at them, even if another bridge has pops of their queue.
func (x *Explainer) asked(r kv.Reader, e *Explained) error {
	if e.Cause != fdbpq.ReasonFlows {
		return nil
	}
	there, err := e.someone(r)
	if err != nil || there && e.asking.moves() {
		return err
	}
	e.lately = there
	if e.dead {
		e.Explanation = fdbpq.Explanation{Cause: DeadLetters, Item: e.letter, Refuses: e.Refuses}
		return nil
	}
	if x.others != nil {
		others, all, err := x.Store.Others(r)
		if err != nil {
			return err
		}
		e.others, e.more = others, !all
	}
	e.nobody(len(e.others), e.more)
	return nil
}

// Complete asks the others.
func (x *Explainer) Complete(e *Explained) {
	ctx, cancel := context.WithTimeout(context.Background(), surveyFor)
	defer cancel()
	select {
	case x.places <- struct{}{}:
		defer func() { <-x.places }()
	case <-ctx.Done():
		return
	}
	answers, silent := x.others.Ask(ctx, []byte(e.queue.Name()), e.others)
	for _, answer := range answers {
		there, ok := readAsking(answer)
		if !ok {
			silent++
		}
		e.asking.add(&there)
	}
	if e.Cause == Failing {
		if e.fails() {
			return
		}
		e.Explanation = e.before
	}
	if e.Cause == fdbpq.ReasonFlows || e.Cause == fdbpq.ReasonDelayed {
		return
	}
	found := false
	reading, done := context.WithTimeout(context.Background(), readFor) // the other time is over when one is silent
	defer done()
	err := x.Store.View(reading, func(r kv.Reader) (err error) {
		found, err = e.someone(r)
		return err
	})
	switch {
	case found && e.asking.moves():
		e.Explanation = fdbpq.Explanation{Cause: fdbpq.ReasonFlows}
	case err != nil:
		e.nobody(silent, true)
	default:
		e.lately = found
		e.nobody(silent, e.more)
	}
}

// Asks remembers for which bands of a queue clients asked lately: a worker counts even if it does not wait at the
// moment.
type Asks struct {
	now func() time.Time

	mu     sync.Mutex
	queues map[string][]ask
	swept  time.Time // when queues were forgotten last
}

type ask struct {
	band  fdbpq.Band
	at    time.Time // of the last one
	until time.Time // the ask counts
}

// AsksLast is how long an ask counts.
const AsksLast = time.Minute

// Bounds: queues, and bands of each.
const (
	maxAsked      = 4096
	maxAskedBands = 8
)

// NewAsks remembers nothing yet.
func NewAsks(now func() time.Time) *Asks { return &Asks{now: now, queues: make(map[string][]ask)} }

// Note notes that a client asks for items, which counts for some time.
func (a *Asks) Note(queue string, band fdbpq.Band, lasts time.Duration) {
	now := a.now()
	until := now.Add(lasts)
	a.mu.Lock()
	defer a.mu.Unlock()
	asks, known := a.queues[queue]
	if !known && len(a.queues) >= maxAsked {
		a.makeRoom(now)
	}
	oldest := 0
	for i := range asks {
		if asks[i].band == band {
			asks[i].at = now
			if until.After(asks[i].until) {
				asks[i].until = until
			}
			return
		}
		if asks[i].until.Before(asks[oldest].until) {
			oldest = i
		}
	}
	if len(asks) < maxAskedBands {
		a.queues[queue] = append(asks, ask{band, now, until})
		return
	}
	asks[oldest] = ask{band, now, until}
}

// makeRoom forgets queues that no client asks any more, once a second at most, or else any queue.
func (a *Asks) makeRoom(now time.Time) {
	if now.Sub(a.swept) > time.Second {
		a.swept = now
		maps.DeleteFunc(a.queues, func(_ string, asks []ask) bool {
			return !slices.ContainsFunc(asks, func(one ask) bool { return now.Before(one.until) })
		})
	}
	if len(a.queues) < maxAsked {
		return
	}
	for some := range a.queues {
		delete(a.queues, some)
		return
	}
}

// Lately returns the bands for which asks still count, and when the last of them came.
func (a *Asks) Lately(queue string) (bands []fdbpq.Band, asked time.Time) {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.queues[queue] {
		if now.Before(one.until) {
			bands = append(bands, one.band)
		}
		if one.at.After(asked) {
			asked = one.at
		}
	}
	return bands, asked
}

// Explained is an explanation on its way. Behind Complete, or if it is not open, it is what can be known.
type Explained struct {
	Facts
	queue  fdbpq.Queue
	band   *fdbpq.Band       // of an item; a queue has none
	dead   bool              // it is about dead letters
	letter *fdbpq.ID         // or about one
	leases fdbpq.Explanation // who has the items that are leased
	before fdbpq.Explanation // that of a failing queue, if it were not failing
	asking asking            // who asks, as far as bridges have said
	lately bool              // somebody has asked who would get an item
	others []string          // bridges that have the store open, and were not asked
	more   bool              // there are more of them
}

// of takes over what an inspection has counted.
func (e *Explained) of(i *fdbpq.Inspection) {
	e.Ready, e.Leased, e.Delayed, e.Rate, e.CostRate = i.Ready, i.Leased, i.Delayed, i.Config.Rate, i.Config.CostRate
}

// someone reports whether one of the pops would get an item.
func (e *Explained) someone(r kv.Reader) (bool, error) {
	if e.band != nil {
		return slices.ContainsFunc(e.asking.Bands, func(b fdbpq.Band) bool { return b.Low <= e.band.Low && e.band.High <= b.High }), nil
	}
	if slices.Contains(e.asking.Bands, fdbpq.AllPriorities) {
		return true, nil
	}
	return e.queue.Offers(r, e.asking.Bands)
}

// nobody says what keeps items for which no pop is known.
func (e *Explained) nobody(silent int, more bool) {
	e.Waiting, e.Bands, e.Silent, e.Lately, e.recent = e.asking.Waiting, e.asking.Bands, silent, false, e.asking.recent
	switch {
	case silent > 0 || more:
		e.Cause = Unknown
	case e.lately && e.leases.Cause != "":
		e.Explanation = e.leases
	case e.lately && e.recent.Lost.Leases > 0:
		e.Cause = NoWorkers
	case e.lately:
		e.Cause, e.Lately = Unknown, true
	case len(e.Bands) > 0:
		e.Cause = fdbpq.ReasonBand
	case e.leases.Cause != "":
		e.Explanation = e.leases
	default:
		e.Cause = NoWorkers
	}
}

// fails reports whether the items of the queue that are tried fail, as far as is known: all of the last attempts failed, or nothing
// was acknowledged lately and whatever is not delayed from its push has failed, twice at least. Bridges that have just begun do not
// know what was acknowledged before, so the failures must have been since then.
func (e *Explained) fails() bool {
	switch r, f := &e.asking.recent, &e.Failing; {
	case f.Items == 0 || !r.mayFail():
		return false
	case r.Failures >= lastAttempts:
		return true
	default:
		knows := time.Since(later(r.Acked, r.Began)) >= quietFor || r.Acked.IsZero() && r.Failures >= 2
		return f.Others == 0 && f.Failures >= 2 && knows
	}
}

// fail makes failures the cause.
func (e *Explained) fail() {
	e.before = e.Explanation
	last, next := &e.Failing.Last, &e.Failing.Next
	e.Explanation = fdbpq.Explanation{
		Cause: Failing, Item: &last.ID, Holder: last.Attempt.Holder, Until: next.Due, AtLeast: e.Failing.AtLeast, Refuses: e.Refuses,
	}
}

// Open reports whether others have to be asked.
func (e *Explained) Open() bool { return len(e.others) > 0 }
