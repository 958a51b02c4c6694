package explain

import (
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

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
