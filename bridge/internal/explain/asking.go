package explain

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// asking is who asks for the items of a queue, and what became of those that were handed out, as bridges tell each other.
type asking struct {
	Waiting int          // pops that wait
	Bands   []fdbpq.Band // for which they wait, or for which somebody has asked lately
	recent  recent
}

func (a *asking) add(b *asking) {
	a.Waiting += b.Waiting
	for _, band := range b.Bands {
		if !slices.Contains(a.Bands, band) {
			a.Bands = append(a.Bands, band)
		}
	}
	a.recent.add(&b.recent)
}

const (
	// movesFor is how long a pop that asked, or got an item, shows that items are handed out.
	movesFor = 10 * time.Second

	// lastAttempts is how many attempts fail, one after the other, where a queue fails whatever else it has.
	lastAttempts = 16

	// quietFor is how long nothing was acknowledged where the items that have failed are all that moves, and quietLeast where
	// the last attempts failed, too: a queue in which a tenth fails has long series of failures, and goes on.
	quietFor   = time.Minute
	quietLeast = 30 * time.Second
)

// moves reports whether something shows that items are handed out.
func (a *asking) moves() bool {
	return a.Waiting > 0 || time.Since(a.recent.Asked) < movesFor || time.Since(a.recent.Out) < movesFor
}

// recent is how the last leases of a queue ended, and when a pop last asked.
type recent struct {
	Asked time.Time
	Began time.Time // when this bridge began
	request.Recent
}

// add adds what another bridge knows. An acknowledgement there ends the failures here that were before it; how many these are is
// not known.
func (r *recent) add(b *recent) {
	r.Asked, r.Out, r.Acked = later(r.Asked, b.Asked), later(r.Out, b.Out), later(r.Acked, b.Acked)
	r.Began = later(r.Began, b.Began)
	r.Failures += b.Failures
	if b.Lost.At.After(r.Lost.At) {
		r.Lost = b.Lost
	}
}

// mayFail reports whether nothing was acknowledged for a while.
func (r *recent) mayFail() bool { return time.Since(r.Acked) >= quietLeast }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// told is what one bridge tells another one. Times are milliseconds ago.
type told struct {
	Waiting  *int         `json:"waiting"`
	Bands    []fdbpq.Band `json:"bands"`
	Asked    *int64       `json:"asked,omitempty"`
	Out      *int64       `json:"out,omitempty"`
	Acked    *int64       `json:"acked,omitempty"`
	Failures int64        `json:"failures,omitempty"`
	Lost     *toldLost    `json:"lost,omitempty"`
}

type toldLost struct {
	Holder string `json:"holder,omitempty"`
	Leases int64  `json:"leases"`
	At     *int64 `json:"at"`
}

// tell is what to tell another bridge.
func (a *asking) tell() ([]byte, error) {
	r := &a.recent
	t := told{Waiting: &a.Waiting, Bands: a.Bands, Asked: sinceThen(r.Asked), Out: sinceThen(r.Out), Acked: sinceThen(r.Acked), Failures: r.Failures}
	if l := &r.Lost; l.Leases > 0 {
		t.Lost = &toldLost{l.Holder, l.Leases, sinceThen(l.At)}
	}
	return json.Marshal(t)
}

func sinceThen(then time.Time) *int64 {
	if then.IsZero() {
		return nil
	}
	return new(max(0, time.Since(then).Milliseconds()))
}

// maxTold bounds the bands of which a bridge tells: of pops that wait, and of those of a while ago.
const maxTold = 2 * protocol.MaxBands

// readAsking reads what another bridge has told. An answer without the number of waiting pops, as a bridge of another version may
// send, is not ok: it would count as no pops.
func readAsking(answer []byte) (a asking, ok bool) {
	var t told
	if json.Unmarshal(answer, &t) != nil || t.Waiting == nil || len(t.Bands) > maxTold {
		return asking{}, false
	}
	n := *t.Waiting
	if n < 0 || n > 0 && len(t.Bands) == 0 || t.Failures < 0 {
		return asking{}, false
	}
	a = asking{Waiting: n, Bands: t.Bands}
	a.recent.Failures = t.Failures
	ok = read(&a.recent.Asked, t.Asked) && read(&a.recent.Out, t.Out) && read(&a.recent.Acked, t.Acked)
	if l := t.Lost; l != nil && ok {
		a.recent.Lost = request.Lost{Holder: fdbpq.ReasonText(l.Holder), Leases: l.Leases}
		ok = l.Leases > 0 && l.At != nil && read(&a.recent.Lost.At, l.At)
	}
	return a, ok
}

// maxAgo is more than anything was ago that is told.
const maxAgo = 366 * 24 * time.Hour

// read reads a time; false: it is none.
func read(to *time.Time, ago *int64) bool {
	if ago == nil {
		return true
	}
	*to = time.Now().Add(-time.Duration(*ago) * time.Millisecond)
	return *ago >= 0 && *ago <= maxAgo.Milliseconds()
}
