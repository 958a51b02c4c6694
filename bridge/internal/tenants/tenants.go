// Package tenants counts the requests, queues, items and bytes of each tenant of a bridge, and enforces its quotas.
// Tenants share a bridge and a store, and none should notice the others.
//
// What it guarantees: a request beyond the rate of its tenant is refused before anything reads it. Queues, items
// and bytes are counted in the store, so neither a crash nor another bridge makes them forgotten. Admitted items, with
// all that they take, and bodies of results count, too, until a count began after their transaction, unless that has not
// happened. So a single bridge admits nothing beyond a quota; several may, by what the others admit between two counts.
// Counting takes a bounded part of the time of the store.
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

// Quotas are the bounds of a tenant. 0: no bound.
type Quotas struct {
	Queues int64 // each with its dead-letter queue, see fdbpq.CountsWith
	Items  int64 // in all its queues, whatever their state
	Bytes  int64 // of their payloads, headers and rows

	// Requests a second, and Waiting pops, of each bridge. The items of a bundle are requests.
	Requests, Waiting int64
}

// Usage is how much a tenant has in the store.
type Usage struct{ Queues, Items, Bytes int64 }

func (u Usage) plus(v Usage) Usage {
	return Usage{u.Queues + v.Queues, u.Items + v.Items, u.Bytes + v.Bytes}
}

func (u Usage) minus(v Usage) Usage {
	return Usage{u.Queues - v.Queues, u.Items - v.Items, u.Bytes - v.Bytes}
}

// Options configure Tenants.
type Options struct {
	// Quotas returns the present quotas of a tenant.
	Quotas func(tenant string) Quotas

	// Count reads the usage of a tenant.
	Count func(tenant string) (Usage, error)

	// ShareRequests and ShareBytes bound a tenant's requests in flight.
	ShareRequests, ShareBytes int64

	Now func() time.Time
}

// Tenants are the tenants with requests lately.
type Tenants struct {
	options Options

	mu    sync.Mutex
	known map[string]*Tenant
	swept time.Time
	most  int // tenants that are known before idle ones are forgotten sooner
}

// New returns Tenants without any.
func New(o Options) *Tenants {
	return &Tenants{options: o, known: make(map[string]*Tenant), most: fewTenants}
}

// Tenant is the state of one tenant.
type Tenant struct {
	Share request.Share
	name  string
	of    *Tenants

	counting sync.Mutex // held while its items are counted

	mu       sync.Mutex
	tokens   float64   // of its rate; below 0 after a request that was larger than the rest
	at       time.Time // time of that number of tokens
	forRows  float64   // what rows have cost, as far as it is owed
	charged  int64     // requests, and all that cost as much
	line     []large   // large requests that wait
	running  int       // large requests under way
	reserved float64   // tokens that large requests under way may take
	counted  Usage
	when     time.Time // when the last count began; zero: there was none
	took     time.Duration
	rests    time.Time // no count begins before
	underWay Usage     // admitted, in transactions that have not ended
	ended    Usage     // admitted in transactions that have ended since the last count began
	before   Usage     // while a count runs: admitted in transactions that had ended when it began
	requests int64
	refused  map[protocol.Reason]int64
	unread   int64 // messages refused before anything read them
	excess   excess
}

// excess is how much a tenant has sent beyond its rate within a second.
type excess struct {
	since           time.Time
	requests, bytes int64
}

// A tenant is counted again after countEvery, or as soon as it seems to exceed a quota. The rest between two counts
// is countRest times as long as a count takes: a busy store must not keep a tenant from using the room of items
// that have left its queues. So one slow count says little, and a rest has a bound.
const (
	countEvery = time.Second
	countRest  = 100
	mostRest   = time.Second / 2
	queueRest  = 500 * time.Microsecond // the bound for each of many queues

	// idleAfter is how long after its last request a tenant is forgotten, unless it owes requests: then when it has
	// its tokens again. While more are known than fewTenants, and than twice those that were left the last time, it
	// is idleSoon.
	idleAfter  = time.Minute
	idleSoon   = time.Second
	fewTenants = 1024
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

// sweep forgets idle tenants: if clients choose the names, there are many.
func (t *Tenants) sweep(now time.Time) {
	least := idleAfter
	if len(t.known) >= t.most {
		least = idleSoon
	} else if now.Sub(t.swept) < idleAfter {
		return
	}
	t.swept = now
	maps.DeleteFunc(t.known, func(_ string, one *Tenant) bool {
		one.mu.Lock()
		defer one.mu.Unlock()
		return now.Sub(one.at) > least && one.idle()
	})
	t.most = max(fewTenants, 2*len(t.known))
}

// idle reports whether the tenant has nothing under way, and owes nothing. The lock is held.
func (t *Tenant) idle() bool {
	most := t.refill()
	return t.tokens >= most && t.Share.Idle() && t.running == 0 && t.underWay == Usage{}
}

// refill adds the tokens since the last time, subtracts the owed ones, and returns the rate. The lock is held.
func (t *Tenant) refill() (most float64) {
	most = float64(t.Quotas().Requests)
	now := t.of.options.Now()
	if more := most * now.Sub(t.at).Seconds(); most > 0 {
		t.tokens, t.forRows = min(most, t.tokens+more), max(0, t.forRows-more)
	} else {
		t.tokens, t.forRows = 0, 0 // a later quota does not charge earlier requests
	}
	t.at = now
	t.spend(t.Share.Owed())
	return most
}

// spend takes tokens. The lock is held.
func (t *Tenant) spend(n int64) {
	t.tokens -= float64(n)
	t.charged += n
}

// Ask takes a request from the tenant's rate, or says why it may not have it. A tenant with a token may take more
// than it has, and then waits until they are back. Settlements are refused later than others: without them items
// come again, which costs more.
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
	t.spend(1)
	t.requests++
	return nil
}

// Bounds of the time until a request beyond the rate is answered, mostPauseLarge for one of more than largeMessage
// bytes. With a quarter more they are less than the 2 s that clients usually wait.
const (
	leastPause     = 100 * time.Millisecond
	mostPause      = time.Second
	mostPauseLarge = 1500 * time.Millisecond
	largeMessage   = 16 << 10
)

// Pause is how long a request of some bytes beyond the rate waits for its answer: about until the tenant has a
// token again, within bounds. So a client that repeats when the answer comes has less to be refused. A large
// message keeps the server busy even if it is refused, so it waits longer. Requests that came together are not
// answered together.
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

// Charge takes n more requests, which were served already.
func (t *Tenant) Charge(n int) {
	if t == nil || n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spend(int64(n))
}

// Name is the tenant's.
func (t *Tenant) Name() string { return t.name }

// Quotas are the present quotas of the tenant.
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

// Floods counts a message beyond the rate, and reports whether such messages of a second are more than the rate,
// and more than the tenant may have in flight.
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

// Left says why the tenant may not have items that no request brings, such as items of its schedules: its rate has
// no request left. The items are charged later.
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

// Admission is the room that a tenant has taken for one transaction. It counts until the transaction has ended, and
// then until the tenant is counted again. Without a tenant it is nil, and bounds nothing.
type Admission struct {
	of   *Tenant
	has  Usage
	kept Usage // of it, results that the last run keeps
}

// Open returns the admission of a transaction. It has to be ended after the transaction.
func (t *Tenant) Open() *Admission {
	if t == nil {
		return nil
	}
	return &Admission{of: t}
}

// End says that the transaction has ended. What was taken and not undone may have happened.
func (a *Admission) End() {
	if a == nil {
		return
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.of.underWay, a.of.ended = a.of.underWay.minus(a.has), a.of.ended.plus(a.has)
	a.has, a.kept = Usage{}, Usage{}
}

// Undo gives back what was taken so far: nothing of it has happened. The admission goes on, for another run of the transaction.
func (a *Admission) Undo() {
	if a == nil {
		return
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.of.underWay = a.of.underWay.minus(a.has)
	a.has, a.kept = Usage{}, Usage{}
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

// take adds to the admission, unless a quota would be exceeded. Many may ask at once, so it checks and notes under
// one lock.
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

// ToKeep counts the tenant again if that is due: the transaction may keep results with as many bytes.
func (a *Admission) ToKeep(bytes int) {
	if a == nil || bytes == 0 {
		return
	}
	if most := a.of.Quotas().Bytes; most > 0 {
		a.of.beyond(func(u Usage) protocol.Reason {
			if u.Bytes+int64(bytes) > most {
				return protocol.ReasonQuotaBytes
			}
			return ""
		})
	}
}

// Keeping returns a function that counts the bytes of a result, and reports whether the tenant may have them. It reads nothing from the
// store. nil: there is no quota. A transaction that runs again asks for another one, since it keeps nothing of what it did before.
func (a *Admission) Keeping() func(bytes int) bool {
	if a == nil {
		return nil
	}
	t := a.of
	most := t.Quotas().Bytes
	if most == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.underWay, a.has, a.kept = t.underWay.minus(a.kept), a.has.minus(a.kept), Usage{}
	return func(bytes int) bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		more := Usage{Bytes: int64(bytes)}
		if t.estimate().plus(more).Bytes > most {
			return false
		}
		t.underWay, a.has, a.kept = t.underWay.plus(more), a.has.plus(more), a.kept.plus(more)
		return true
	}
}

// Full says why the tenant may have no further item, by the last count. It reads nothing.
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

// OutOfBytes reports whether the tenant has all bytes that it may have, by the last count. It reads nothing.
func (t *Tenant) OutOfBytes() bool {
	if t == nil {
		return false
	}
	most := t.Quotas().Bytes
	t.mu.Lock()
	defer t.mu.Unlock()
	return most > 0 && t.estimate().Bytes >= most
}

// Making returns a function that says whether the tenant may have the queue of the transaction, and counts the
// queue; nil if it always may. Only Making itself reads the store, not the function; refused is what the function
// would return now.
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

// beyond returns the quota that the tenant exceeds. It counts again if the last count is old, and sooner if the
// tenant seems to exceed a quota: its items may be gone.
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

// count reads the usage of the tenant, unless another goroutine does. Before the first count has ended, others wait
// for it. After an error the last count holds.
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

// Look returns the usage and the quotas of the tenant.
func (t *Tenant) Look() (Usage, Quotas) {
	t.beyond(func(Usage) protocol.Reason { return "" })
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counted, t.Quotas()
}

// Counts are the numbers of one tenant for metrics.
type Counts struct {
	Usage
	Counted  bool // what it has
	Requests int64
	Charged  int64 // with what costs as much as requests
	Unread   int64
	Refused  map[protocol.Reason]int64
}

// Counts returns the numbers of the tenants with requests lately.
func (t *Tenants) Counts() map[string]Counts {
	t.mu.Lock()
	known := maps.Clone(t.known)
	t.mu.Unlock()
	all := make(map[string]Counts, len(known))
	for name, one := range known {
		all[name] = one.counts()
	}
	return all
}

// Charged returns how many requests the tenant was charged, with what costs as much.
func (t *Tenant) Charged() int64 { return t.counts().Charged }

func (t *Tenant) counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spend(t.Share.Owed())
	return Counts{
		Usage: t.counted, Counted: !t.when.IsZero(),
		Requests: t.requests, Charged: t.charged, Unread: t.unread, Refused: maps.Clone(t.refused),
	}
}

// OfQueue returns the tenant of a queue, nil if it has none.
func (t *Tenants) OfQueue(queue string) *Tenant {
	if name := subjects.Tenant(queue); t != nil && name != "" {
		return t.Of(name)
	}
	return nil
}
