// Package tenants knows what each tenant of a bridge has and does, and what it may. Tenants share a
// bridge and a store, and none is to notice what another one does.
//
// What it guarantees: a request beyond the rate of its tenant is refused before anything reads it; what a
// tenant has is counted in the store, so neither a crash nor another bridge makes it forgotten; what was
// admitted counts, too, until a count began behind its transaction. So a bridge alone exceeds no quota. Several may,
// by what the others admit between two counts. Counting takes a bounded part of the time of the store.
package tenants

import (
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Quotas bound what a tenant has and does. 0: no bound.
type Quotas struct {
	Queues int64 // each with its dead-letter queue, see fdbpq.CountsWith
	Items  int64 // in all its queues, whatever their state
	Bytes  int64 // of their payloads and headers

	// Requests a second, and Waiting pops, of each bridge. The items of a bundle are requests.
	Requests, Waiting int64
}

// Usage is what a tenant has in the store.
type Usage struct{ Queues, Items, Bytes int64 }

func (u Usage) plus(v Usage) Usage {
	return Usage{u.Queues + v.Queues, u.Items + v.Items, u.Bytes + v.Bytes}
}

func (u Usage) minus(v Usage) Usage {
	return Usage{u.Queues - v.Queues, u.Items - v.Items, u.Bytes - v.Bytes}
}

// Options configure Tenants.
type Options struct {
	// Quotas are those of a tenant now.
	Quotas func(tenant string) Quotas

	// Count reads what a tenant has.
	Count func(tenant string) (Usage, error)

	// ShareRequests and ShareBytes are what a tenant may have in flight.
	ShareRequests, ShareBytes int64

	Now func() time.Time
}

// Tenants are the tenants that have asked for something lately.
type Tenants struct {
	options Options

	mu    sync.Mutex
	known map[string]*Tenant
	swept time.Time
}

// New returns Tenants of whom none has asked for anything yet.
func New(o Options) *Tenants {
	return &Tenants{options: o, known: make(map[string]*Tenant)}
}

// Tenant is what is known of one.
type Tenant struct {
	Share request.Share
	name  string
	of    *Tenants

	counting sync.Mutex // held while its items are counted

	mu       sync.Mutex
	tokens   float64   // of its rate; below 0 after what was larger than they were
	at       time.Time // when they were so many
	line     []large   // that wait
	running  int       // of the large ones
	reserved float64   // tokens that these may take
	counted  Usage
	when     time.Time // the last count began; zero: they were not counted yet
	took     time.Duration
	rests    time.Time // until then they are not counted again
	underWay Usage     // admitted, in transactions that have not ended
	ended    Usage     // in those that have ended since the last count began
	before   Usage     // in those that had ended when it began, as long as it runs
	requests int64
	refused  map[protocol.Reason]int64
	unread   int64 // messages refused before anything read them
	excess   excess
}

// excess is what a tenant has sent beyond its rate, of a second.
type excess struct {
	since           time.Time
	requests, bytes int64
}

// A tenant is counted again after countEvery, or as soon as it seems to have too much. Between two counts are countRest
// times as long as one takes by itself: what a busy store adds must not keep the tenant from what has left its queues. So one slow
// count says little, and a rest has a bound.
const (
	countEvery = time.Second
	countRest  = 100
	mostRest   = time.Second / 2
	queueRest  = 500 * time.Microsecond // the bound for each of many queues

	// idleAfter is when a tenant that asks for nothing is forgotten, unless it owes requests: then, when it has its tokens again.
	idleAfter = time.Minute
)

// Of returns a tenant.
func (t *Tenants) Of(name string) *Tenant {
	now := t.options.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.known[name]
	if one == nil {
		t.sweep(now)
		one = &Tenant{name: name, of: t, at: now, tokens: float64(t.options.Quotas(name).Requests), refused: make(map[protocol.Reason]int64)}
		one.Share.Requests, one.Share.Bytes = t.options.ShareRequests, t.options.ShareBytes
		t.known[name] = one
	}
	return one
}

// sweep forgets idle tenants: names are many where clients choose them.
func (t *Tenants) sweep(now time.Time) {
	if now.Sub(t.swept) < idleAfter {
		return
	}
	t.swept = now
	maps.DeleteFunc(t.known, func(_ string, one *Tenant) bool {
		one.mu.Lock()
		defer one.mu.Unlock()
		return now.Sub(one.at) > idleAfter && one.idle()
	})
}

// idle reports whether nothing of the tenant is under way, and it owes nothing. The lock is held.
func (t *Tenant) idle() bool {
	most := t.refill()
	return t.tokens >= most && t.Share.Idle() && t.running == 0 && t.underWay == Usage{}
}

// refill adds what has come since the last time, takes what is owed, and returns the rate. The lock is held.
func (t *Tenant) refill() (most float64) {
	most = float64(t.Quotas().Requests)
	now := t.of.options.Now()
	if most > 0 {
		t.tokens = min(most, t.tokens+most*now.Sub(t.at).Seconds())
	} else {
		t.tokens = 0 // a quota that comes later is not about what was
	}
	t.at = now
	t.tokens -= float64(t.Share.Owed())
	return most
}

// Ask takes a request from the tenant's rate, or says why it may not have it. Whoever has a token may take
// more than there are, and then waits for as long as that takes. Settlements are refused later
// than others: without them items come again, which costs more.
func (t *Tenant) Ask(settles bool) *failure.Failure {
	t.mu.Lock()
	defer t.mu.Unlock()
	most := t.refill()
	least := 1.0
	if settles {
		least = 1 - most
	}
	if most > 0 && t.tokens < least {
		t.refused[reasonRate]++
		return failures[reasonRate]
	}
	t.tokens--
	t.requests++
	return nil
}

// How long a request beyond the rate waits for the answer, at most mostPauseLarge if it has more than largeMessage bytes. With a quarter more that
// is less than the 2 s that clients wait by habit.
const (
	leastPause     = 100 * time.Millisecond
	mostPause      = time.Second
	mostPauseLarge = 1500 * time.Millisecond
	largeMessage   = 16 << 10
)

// Pause is how long a request of some bytes beyond the rate waits for the answer: about until the tenant may have one, within bounds. So who asks again
// when the answer comes has less to refuse. Large messages keep the server busy, which reads them whatever becomes of them: of these less
// may come. Requests that came together are not answered together.
func (t *Tenant) Pause(bytes int) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	rate := t.refill()
	if rate == 0 {
		return leastPause
	}
	most := mostPause
	if bytes > largeMessage {
		most = mostPauseLarge
	}
	owed := 1 - t.tokens + float64(bytes/request.OwedBytes)
	pause := min(max(owed/rate, leastPause.Seconds()), most.Seconds())
	return time.Duration(pause * (0.75 + rand.Float64()/2) * float64(time.Second))
}

// Charge takes n more requests, which the tenant has had already.
func (t *Tenant) Charge(n int) {
	if t == nil || n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tokens -= float64(n)
}

// Name is the tenant's.
func (t *Tenant) Name() string { return t.name }

// Quotas are those of the tenant now.
func (t *Tenant) Quotas() Quotas { return t.of.options.Quotas(t.name) }

const reasonRate = protocol.ReasonQuotaRequests

var failures = func() map[protocol.Reason]*failure.Failure {
	all := make(map[protocol.Reason]*failure.Failure)
	for reason, what := range map[protocol.Reason]string{
		protocol.ReasonQuotaRequests: "too many requests a second",
		protocol.ReasonQuotaQueues:   "too many queues",
		protocol.ReasonQuotaItems:    "too many items in all queues together",
		protocol.ReasonQuotaBytes:    "too many bytes in all queues together",
		protocol.ReasonQuotaWaiting:  "too many waiting pops",
	} {
		all[reason] = &failure.Failure{Code: 429, Reason: reason, Text: what + ": the tenant has reached its quota, which _sys.info shows"}
	}
	return all
}()

// Refused returns the failure of a request beyond a quota, and counts it.
func (t *Tenant) Refused(reason protocol.Reason) *failure.Failure {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused[reason]++
	return failures[reason]
}

// Floods counts a message beyond the rate, and reports whether those of a second are more than the rate, and more than the
// tenant may have in flight.
func (t *Tenant) Floods(bytes int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.of.options.Now(); now.Sub(t.excess.since) >= time.Second {
		t.excess = excess{since: now}
	}
	t.excess.requests++
	t.excess.bytes += int64(bytes)
	most := t.Quotas().Requests
	return t.excess.requests > max(most, t.Share.Requests) || t.excess.bytes > max(most*request.OwedBytes, t.Share.Bytes)
}

// Unread counts a message that was refused before anything read it.
func (t *Tenant) Unread() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unread++
}

// Left says why the tenant may not have what nobody asks for, such as the items of its schedules: its rate has no request left. What it
// gets is charged later.
func (t *Tenant) Left() *failure.Failure {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if most := t.refill(); most > 0 && t.tokens < 1 {
		t.refused[reasonRate]++
		return failures[reasonRate]
	}
	return nil
}

// Admission is what a tenant may add in one transaction. It counts until that has ended, and then until the tenant is counted again. That of
// no tenant is nil, and bounds nothing.
type Admission struct {
	of  *Tenant
	has Usage
}

// Open returns the admission of a transaction, which has to be ended behind it.
func (t *Tenant) Open() *Admission {
	if t == nil {
		return nil
	}
	return &Admission{of: t}
}

// End says that the transaction has ended, whatever became of it.
func (a *Admission) End() {
	if a == nil {
		return
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.of.underWay, a.of.ended = a.of.underWay.minus(a.has), a.of.ended.plus(a.has)
	a.has = Usage{}
}

// Admit counts new items of the tenant's queues, or bytes alone, or says why it may not have them.
func (a *Admission) Admit(items, bytes int) *failure.Failure {
	if a == nil {
		return nil
	}
	q := a.of.Quotas()
	if items == 0 && bytes == 0 || q.Items == 0 && q.Bytes == 0 {
		return nil
	}
	more := Usage{Items: int64(items), Bytes: int64(bytes)}
	beyond := func(u Usage) protocol.Reason {
		switch u = u.plus(more); {
		case q.Items > 0 && items > 0 && u.Items > q.Items:
			return protocol.ReasonQuotaItems
		case q.Bytes > 0 && u.Bytes > q.Bytes:
			return protocol.ReasonQuotaBytes
		}
		return ""
	}
	a.of.beyond(beyond)
	return a.take(more, beyond)
}

// take adds to the admission what is not beyond a quota. Many may ask at once, so nothing is between the look and the note.
func (a *Admission) take(more Usage, beyond func(Usage) protocol.Reason) *failure.Failure {
	t := a.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if reason := beyond(t.estimate()); reason != "" {
		t.refused[reason]++
		return failures[reason]
	}
	t.underWay, a.has = t.underWay.plus(more), a.has.plus(more)
	return nil
}

// Full says why the tenant may have no item more, as far as it was counted. It reads nothing.
func (t *Tenant) Full() *failure.Failure {
	if t == nil {
		return nil
	}
	q := t.Quotas()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch has := t.estimate(); {
	case q.Items > 0 && has.Items >= q.Items:
		return failures[protocol.ReasonQuotaItems]
	case q.Bytes > 0 && has.Bytes >= q.Bytes:
		return failures[protocol.ReasonQuotaBytes]
	}
	return nil
}

// Making returns what says whether the tenant may have the queue of the transaction, and counts it; nil if it always may. It
// reads the store at most before it returns; refused is what it would say now.
func (a *Admission) Making() (making func() error, refused error) {
	if a == nil {
		return nil, nil
	}
	most := a.of.Quotas().Queues
	if most == 0 {
		return nil, nil
	}
	full := func(u Usage) protocol.Reason {
		if u.Queues >= most {
			return protocol.ReasonQuotaQueues
		}
		return ""
	}
	if reason := a.of.beyond(full); reason != "" {
		refused = failures[reason]
	}
	return func() error {
		if a.has.Queues > 0 {
			return nil // the transaction runs again
		}
		if f := a.take(Usage{Queues: 1}, full); f != nil {
			return f
		}
		return nil
	}, refused
}

// estimate is the most that the tenant has.
func (t *Tenant) estimate() Usage {
	return t.counted.plus(t.underWay).plus(t.ended).plus(t.before)
}

// beyond returns what the tenant has too much of. It counts again when the last count is old, and sooner where
// the tenant seems to have too much: what it had may be gone.
func (t *Tenant) beyond(of func(Usage) protocol.Reason) protocol.Reason {
	look := func() (reason protocol.Reason, due bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		now := t.of.options.Now()
		reason = of(t.estimate())
		return reason, t.when.IsZero() || !now.Before(t.rests) && (reason != "" || now.Sub(t.when) >= countEvery)
	}
	reason, due := look()
	if due {
		t.count()
		reason, _ = look()
	}
	return reason
}

// count reads what the tenant has, unless somebody does. Who asks before the first count waits for it. After an error the last count holds.
func (t *Tenant) count() {
	known := func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return !t.when.IsZero()
	}
	waited := !known()
	if waited {
		t.counting.Lock()
	} else if !t.counting.TryLock() {
		return
	}
	defer t.counting.Unlock()
	if waited && known() {
		return // somebody else has counted
	}
	t.mu.Lock()
	t.before, t.ended = t.ended, Usage{}
	began := t.of.options.Now()
	t.mu.Unlock()
	found, err := t.of.options.Count(t.name)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.ended, t.before = t.ended.plus(t.before), Usage{}
		return
	}
	now := t.of.options.Now()
	took := now.Sub(began)
	if !t.when.IsZero() {
		took = min(took, max(2*t.took, time.Millisecond))
	}
	t.counted, t.before, t.when, t.took = found, Usage{}, began, took
	t.rests = now.Add(min(countRest*took, max(mostRest, time.Duration(found.Queues)*queueRest)))
}

// Look returns what the tenant has, and may.
func (t *Tenant) Look() (Usage, Quotas) {
	t.beyond(func(Usage) protocol.Reason { return "" })
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counted, t.Quotas()
}

// Counts are what one tenant has asked for.
type Counts struct {
	Usage
	Counted  bool // what it has
	Requests int64
	Unread   int64
	Refused  map[protocol.Reason]int64
}

// Counts returns those of the tenants that have asked for something lately.
func (t *Tenants) Counts() map[string]Counts {
	t.mu.Lock()
	known := maps.Clone(t.known)
	t.mu.Unlock()
	all := make(map[string]Counts, len(known))
	for name, one := range known {
		one.mu.Lock()
		all[name] = Counts{Usage: one.counted, Counted: !one.when.IsZero(), Requests: one.requests, Unread: one.unread, Refused: maps.Clone(one.refused)}
		one.mu.Unlock()
	}
	return all
}

// OfQueue returns the tenant of a queue, nil if it has none.
func (t *Tenants) OfQueue(queue string) *Tenant {
	if name := subjects.Tenant(queue); t != nil && name != "" {
		return t.Of(name)
	}
	return nil
}
