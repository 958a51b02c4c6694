package request

import (
	"container/list"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/protocol"
)

// Statistics count the work of a bridge since it started.
type Statistics struct {
	Verbs   []VerbStats // by index
	Queues  *PerQueue
	lost    atomic.Int64 // pushes without a reply subject that were not stored
	latency *prometheus.HistogramVec
	batches *prometheus.HistogramVec
	times   *prometheus.HistogramVec
	late    *prometheus.HistogramVec // schedules
	clock   atomic.Int64             // of schedules, from this machine's, in nanoseconds

	mu      sync.Mutex
	queues  map[string]*flows
	recent  *list.List    // their names, those that were active last at its end
	all     ring          // of all queues together
	noted   [series]int64 // the failures that its steps have counted
	looked  time.Time     // at the clocks
	setBack int64         // by how many steps the wall clock was
}

// VerbStats counts the requests of a verb.
type VerbStats struct {
	served   atomic.Int64
	failed   [len(protocol.ErrorCodes)]atomic.Int64
	nanos    atomic.Int64
	lastCode atomic.Int32
	latency  prometheus.Observer
}

// Requests counts requests and errors for discovery. An empty queue is no error, nor
// is a wait without an item.
func (v *VerbStats) Requests() (requests, errors int64) {
	requests = v.served.Load()
	for i := range v.failed {
		n := v.failed[i].Load()
		requests += n
		if protocol.ErrorCodes[i] != 404 && protocol.ErrorCodes[i] != 408 {
			errors += n
		}
	}
	return requests, errors
}

// Answers calls a function with each status that was answered, and how often.
func (v *VerbStats) Answers(each func(code int, n int64)) {
	each(200, v.served.Load())
	for i, code := range protocol.ErrorCodes {
		if n := v.failed[i].Load(); n > 0 {
			each(code, n)
		}
	}
}

// Time is the time of the work on all requests.
func (v *VerbStats) Time() time.Duration { return time.Duration(v.nanos.Load()) }

// LastCode is the status of the last error; 0: there was none.
func (v *VerbStats) LastCode() int { return int(v.lastCode.Load()) }

// Lose counts lost pushes.
func (s *Statistics) Lose(n int) { s.lost.Add(int64(n)) }

// Lost is how many pushes without a reply subject were not stored.
func (s *Statistics) Lost() int64 { return s.lost.Load() }

// Fired notes how late schedules fired, and the difference of their clock from this machine's.
func (s *Statistics) Fired(lateness []time.Duration, offset time.Duration) {
	for _, late := range lateness {
		s.late.WithLabelValues().Observe(late.Seconds())
	}
	s.clock.Store(int64(offset))
}

// ScheduleClock is the difference of the clock of schedules from this machine's.
func (s *Statistics) ScheduleClock() time.Duration { return time.Duration(s.clock.Load()) }

// Histograms are for the metrics.
func (s *Statistics) Histograms() []*prometheus.HistogramVec {
	return []*prometheus.HistogramVec{s.latency, s.batches, s.times, s.late}
}

// Kind is a kind of transaction.
type Kind uint8

// The kinds of transactions.
const (
	KindPush Kind = iota
	KindImport
	KindPop
	KindChange
	KindRead
)

var kindNames = [...]string{"push", "import", "pop", "change", "read"}

// NewStatistics counts the work on verbs with these names, and the events of up to queues single queues.
func NewStatistics(verbs []string, queues int) *Statistics {
	s := &Statistics{Queues: newPerQueue(queues), queues: make(map[string]*flows), recent: list.New(), looked: time.Now()}
	s.latency = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pq_request_seconds", Help: "Time from a request's arrival to its answer, without the time it waited for something to arrive.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 12),
	}, []string{"verb"})
	s.batches = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pq_batch_requests", Help: "Requests served by one transaction.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 11),
	}, []string{"kind"})
	s.times = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pq_transaction_seconds", Help: "Time of a transaction, reruns and durability included.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 12),
	}, []string{"kind"})
	s.late = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pq_schedule_lateness_seconds", Help: "How long after its time, jitter included, a schedule fired.",
		Buckets: prometheus.ExponentialBuckets(0.01, 4, 12),
	}, nil)
	s.late.WithLabelValues() // exported before one has fired
	s.Verbs = make([]VerbStats, len(verbs))
	for i, name := range verbs {
		s.Verbs[i].latency = s.latency.WithLabelValues(name)
	}
	return s
}

// Count counts a request that was answered, or the requests of a bundle.
func (s *Statistics) Count(r *Request, f *failure.Failure) {
	v := &s.Verbs[r.Verb.Index]
	took := r.Took()
	v.nanos.Add(int64(took))
	v.latency.Observe(took.Seconds())
	if f == nil {
		v.served.Add(int64(r.Count()))
		return
	}
	v.failed[slices.Index(protocol.ErrorCodes[:], f.Code)].Add(int64(r.Count()))
	if f.Code != 404 && f.Code != 408 {
		v.lastCode.Store(int32(f.Code))
	}
	if f.Reason != "" {
		s.Queues.notServed(r.Subject.Queue, f.Reason, int64(r.Count()))
	}
}

// RefusedUnread counts a request that was refused unread.
func (s *Statistics) RefusedUnread(by *Verb, f *failure.Failure) {
	v := &s.Verbs[by.Index]
	v.failed[slices.Index(protocol.ErrorCodes[:], f.Code)].Add(1)
	v.lastCode.Store(int32(f.Code))
}

// Ran counts a transaction.
func (s *Statistics) Ran(k Kind, requests int, took time.Duration) {
	s.batches.WithLabelValues(kindNames[k]).Observe(float64(requests))
	s.times.WithLabelValues(kindNames[k]).Observe(took.Seconds())
}

// Flow is a way in which items move.
type Flow uint8

// The ways of items.
const (
	FlowIn Flow = iota
	FlowOut
	FlowSettled
	FlowFailed // attempts that failed, which are settled, too
	flowKinds
)

// flows are the rates of a queue, its flows in the last hour, and how its last leases ended.
type flows struct {
	rates  [flowKinds]rate
	ring   ring
	recent Recent
	place  *list.Element // of the queue's name among those that were active
}

// rate is an average of the last minute or so, in items a second.
type rate struct {
	value float64
	at    time.Time
}

const (
	rateWindow = time.Minute
	maxQueues  = 4096 // whose rates are remembered: the queues that were active last
)

func (r *rate) now(now time.Time) float64 {
	return r.value * math.Exp(-now.Sub(r.at).Seconds()/rateWindow.Seconds())
}

func (r *rate) add(n int, now time.Time) {
	r.value, r.at = r.now(now)+float64(n)/rateWindow.Seconds(), now
}

// Moved counts items of a queue.
func (s *Statistics) Moved(queue string, f Flow, n int) {
	if n == 0 {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.of(queue)
	if f == FlowOut {
		q.recent.Out = now
	}
	s.moved(q, f, n, now)
}

func (s *Statistics) moved(q *flows, f Flow, n int, now time.Time) {
	q.rates[f].add(n, now)
	step := s.stepOf(now)
	q.ring.count(step, int(f), int64(n))
	s.all.count(step, int(f), int64(n))
}

// of returns the flows of a queue that is active. The lock is held.
func (s *Statistics) of(queue string) *flows {
	q := s.queues[queue]
	if q == nil {
		if len(s.queues) >= maxQueues {
			s.forget(s.recent.Front().Value.(string))
		}
		q = &flows{place: s.recent.PushBack(queue)}
		s.queues[queue] = q
	}
	s.recent.MoveToBack(q.place)
	return q
}

// Recent is what a bridge remembers of how the last leases of a queue ended.
type Recent struct {
	Out      time.Time // when a pop last got an item
	Acked    time.Time // when an item was last acknowledged, or taken for good
	Failures int64     // attempts that failed since then
	Lost     Lost
}

// Lost are leases that ran out since an item was acknowledged.
type Lost struct {
	Holder string // of the last one; "": it had no name
	Leases int64  // of this holder, one after the other
	At     time.Time
}

// Settled counts what settlements of a queue have done to its items, ended leases among them.
func (s *Statistics) Settled(queue string, ended int, tally *Tally) {
	s.Queues.Count(queue, tally)
	if ended == 0 {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.of(queue)
	s.moved(q, FlowSettled, ended, now)
	if n := tally[Nacked]; n > 0 {
		s.moved(q, FlowFailed, int(n), now)
		q.recent.Failures += n
	}
	if tally[Acknowledged] > 0 {
		q.recent.Acked, q.recent.Failures, q.recent.Lost = now, 0, Lost{}
	}
}

// LeaseLost notes that a lease ran out.
func (s *Statistics) LeaseLost(queue, holder string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := &s.of(queue).recent.Lost
	if lost.Holder != holder {
		*lost = Lost{Holder: holder}
	}
	lost.Leases, lost.At = lost.Leases+1, now
}

// Recent is how the last leases of a queue ended.
func (s *Statistics) Recent(queue string) Recent {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[queue]; q != nil {
		return q.recent
	}
	return Recent{}
}

// Rates are the rates through this bridge in the last minute or so.
func (s *Statistics) Rates(queue string) protocol.Rates {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[queue]
	if q == nil {
		return protocol.Rates{}
	}
	of := func(f Flow) float64 { return q.rates[f].now(now) }
	return protocol.Rates{Push: of(FlowIn), Pop: of(FlowOut), Settle: of(FlowSettled), Nack: of(FlowFailed)}
}

// Counter is a kind of event of a queue's items that is counted.
type Counter uint8

// What is counted.
const (
	Pushed Counter = iota
	Duplicates
	Imported
	Popped
	Acknowledged
	Returned
	LeasesLost
	Revoked
	Expired
	Dead
	Evicted
	Removed
	ScheduleFired
	ScheduleMissed
	ScheduleOverlapped
	CostReserved
	CostSpent

	Nacked // a part of Returned

	// These are further parts of Returned, and of Dead, that have no metric for each queue.
	GivenBack
	Unreceived
	Terminated

	Counters
)

// Charge counts the cost of a delivery that was settled: what it had reserved, and what it has cost; nil: that.
func (t *Tally) Charge(reserved int64, spent *int64) {
	t[CostReserved] += reserved
	if spent != nil && reserved > 0 {
		reserved = *spent
	}
	t[CostSpent] += reserved
}

// ends are the counters of leases that have ended, by how they did.
var ends = map[string]Counter{
	"ack": Acknowledged, "nak": Nacked, "back": GivenBack, "unreceived": Unreceived, "terminated": Terminated, "expired": LeasesLost, "revoked": Revoked,
}

// Ended is how many leases of all queues have ended, by how they did.
func (s *Statistics) Ended() map[string]int64 {
	tally, counts := s.Queues.all(), make(map[string]int64, len(ends))
	for how, counter := range ends {
		counts[how] = tally[counter]
	}
	return counts
}

// Tally counts the events of a queue's items.
type Tally [Counters]int64

// QueueCounts are the counts of a queue since it has a place, or of all queues without a place.
type QueueCounts struct {
	Tally
	NotServed map[protocol.Reason]int64 // requests, by the reason in their answers

	used  bool // something was counted
	fresh bool // something was counted since the places were last looked through
}

func (c *QueueCounts) count(tally *Tally) {
	for i, n := range tally {
		c.Tally[i] += n
	}
	c.used, c.fresh = true, true
}

// PerQueue counts the events of queues' items. A bounded number of queues have a place, and counts of their own:
// those that were counted first. A queue keeps its place until it is gone. The other queues are counted together.
type PerQueue struct {
	mu     sync.Mutex
	most   int
	places map[string]*QueueCounts
	unused []string // queues that had a place and no counts when places were filled
	rest   QueueCounts
	total  Tally // of all queues
}

func newPerQueue(most int) *PerQueue {
	return &PerQueue{most: most, places: make(map[string]*QueueCounts)}
}

// Count adds events to a queue.
func (p *PerQueue) Count(queue string, tally *Tally) {
	if *tally == (Tally{}) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(queue).count(tally)
	for i, n := range tally {
		p.total[i] += n
	}
}

// Cost is what settled deliveries of a queue had reserved, and have cost; nil without any.
func (p *PerQueue) Cost(queue string) *protocol.Cost {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.places[queue]
	if c == nil || c.Tally[CostReserved] == 0 {
		return nil
	}
	return &protocol.Cost{Reserved: c.Tally[CostReserved], Spent: c.Tally[CostSpent]}
}

// all are the events of all queues.
func (p *PerQueue) all() Tally {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// notServed counts requests that a queue did not serve. They neither give a queue a place nor keep it there, since
// any name can be asked for.
func (p *PerQueue) notServed(queue string, reason protocol.Reason, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.places[queue]
	if c == nil {
		c = &p.rest
	}
	if c.NotServed == nil {
		c.NotServed = make(map[protocol.Reason]int64)
	}
	c.NotServed[reason] += n
}

// of returns the counts of a queue. A queue without a place gets one, if need be the place of a queue that was
// never counted.
func (p *PerQueue) of(queue string) *QueueCounts {
	if c := p.places[queue]; c != nil {
		return c
	}
	if len(p.places) >= p.most && !p.dropUnused() {
		return &p.rest
	}
	c := new(QueueCounts)
	p.places[queue] = c
	return c
}

func (p *PerQueue) dropUnused() bool {
	for len(p.unused) > 0 {
		last := len(p.unused) - 1
		name := p.unused[last]
		p.unused = p.unused[:last]
		if c := p.places[name]; c != nil && !c.used {
			delete(p.places, name)
			return true
		}
	}
	return false
}

// Look returns the queues that have a place, and how many more may get one.
func (p *PerQueue) Look() (queues []string, free int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, c := range p.places {
		queues = append(queues, name)
		c.fresh = false
	}
	return queues, p.most - len(p.places)
}

// Fill gives places to queues as long as there are some.
func (p *PerQueue) Fill(queues []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range queues {
		if len(p.places) >= p.most {
			break
		}
		if p.places[name] == nil {
			p.places[name] = new(QueueCounts)
		}
	}
	p.unused = p.unused[:0]
	for name, c := range p.places {
		if !c.used {
			p.unused = append(p.unused, name)
		}
	}
	slices.Sort(p.unused) // so that the last by name goes first
}

// Gone takes the place from a queue that does not exist, unless it was counted since Look: then it may have been
// made again.
func (p *PerQueue) Gone(queue string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.places[queue]; c != nil && !c.fresh {
		delete(p.places, queue)
	}
}

// Counts returns the counts of each queue that has a place, and of the others together.
func (p *PerQueue) Counts() (queues map[string]QueueCounts, rest QueueCounts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	queues = make(map[string]QueueCounts, len(p.places))
	for name, c := range p.places {
		queues[name] = c.copy()
	}
	return queues, p.rest.copy()
}

func (c *QueueCounts) copy() QueueCounts {
	return QueueCounts{Tally: c.Tally, NotServed: maps.Clone(c.NotServed)}
}

// Most is how many queues can have a place.
func (p *PerQueue) Most() int { return p.most }
