// Package explain finds why nothing of a queue moves, or why an item is not handed out, and says it in words.
//
// The rows of a queue tell what keeps its items. Who asks for them, and what room the store has, bridges know: this one,
// and others that have the store open, which it asks. A bridge that stays silent, or whose answer cannot be read, may have
// pops: then the cause is that nothing is known, never that there are no workers.
package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
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
	Lately  func(queue string) []fdbpq.Band

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

// here is who asks at this bridge.
func (x *Explainer) here(queue string) (a asking) {
	n, bands := x.Waiting(queue)
	a.add(asking{n, bands})
	a.add(asking{0, x.Lately(queue)})
	return a
}

// Tell answers another bridge that asks for who asks here.
func (x *Explainer) Tell(queue []byte) []byte {
	answer, err := json.Marshal(x.here(string(queue)))
	if err != nil {
		return nil // impossible: these are numbers
	}
	return answer
}

// Queue explains a queue, as far as this bridge knows.
func (x *Explainer) Queue(r kv.Reader, q fdbpq.Queue, found *survey.Found) (e Explained, err error) {
	e.queue, e.dead = q, survey.TakesDeadLetters(q.Name(), &found.Config)
	e.of(&found.Inspection)
	if e.Explanation, err = found.Explain(found.OldestLease, found.Held); err != nil {
		return e, err
	}
	e.leases = found.Leases(found.OldestLease, found.Held)
	x.refuses(&e)
	return e, x.asked(r, &e)
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
	e.leases = found.Leases(found.OldestLease, found.Held)
	return e, x.asked(r, &e)
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
	e.asking = x.here(e.queue.Name())
	if there, err := e.someone(r); err != nil || there {
		return err
	}
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
		e.asking.add(there)
	}
	found := false
	reading, done := context.WithTimeout(context.Background(), readFor) // the other time is over when one is silent
	defer done()
	err := x.Store.View(reading, func(r kv.Reader) (err error) {
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
		a.queues[queue] = append(asks, ask{band, until})
		return
	}
	asks[oldest] = ask{band, until}
}

// makeRoom forgets queues that no client asks any more, once a second at most, or else any queue.
func (a *Asks) makeRoom(now time.Time) {
	if now.Sub(a.swept) > time.Second {
		a.swept = now
		maps.DeleteFunc(a.queues, func(_ string, asks []ask) bool { return len(lately(asks, now)) == 0 })
	}
	if len(a.queues) < maxAsked {
		return
	}
	for some := range a.queues {
		delete(a.queues, some)
		return
	}
}

func lately(asks []ask, now time.Time) (bands []fdbpq.Band) {
	for _, one := range asks {
		if now.Before(one.until) {
			bands = append(bands, one.band)
		}
	}
	return bands
}

// Lately returns the bands for which asks still count.
func (a *Asks) Lately(queue string) []fdbpq.Band {
	now := a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	return lately(a.queues[queue], now)
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

// Explained is an explanation on its way. Behind Complete, or if it is not open, it is what can be known.
type Explained struct {
	Facts
	queue  fdbpq.Queue
	band   *fdbpq.Band       // of an item; a queue has none
	dead   bool              // it is about dead letters
	letter *fdbpq.ID         // or about one
	leases fdbpq.Explanation // who has the items that are leased
	asking asking            // who asks, as far as bridges have said
	others []string          // bridges that have the store open, and were not asked
	more   bool              // there are more of them
}

// of takes over what an inspection has counted.
func (e *Explained) of(i *fdbpq.Inspection) {
	e.Ready, e.Leased, e.Delayed, e.Rate = i.Ready, i.Leased, i.Delayed, i.Config.Rate
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
	e.Waiting, e.Bands, e.Silent = e.asking.Waiting, e.asking.Bands, silent
	switch {
	case silent > 0 || more:
		e.Cause = Unknown
	case len(e.Bands) > 0:
		e.Cause = fdbpq.ReasonBand
	case e.leases.Cause != "":
		e.Explanation = e.leases
	default:
		e.Cause = NoWorkers
	}
}

// Open reports whether others have to be asked.
func (e *Explained) Open() bool { return len(e.others) > 0 }
