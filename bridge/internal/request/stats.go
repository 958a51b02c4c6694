package request

import (
	"container/list"
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

	mu     sync.Mutex
	queues map[string]*flows
	recent *list.List    // their names, those that were active last at its end
	all    ring          // of all queues together
	noted  [series]int64 // the failures that its steps have counted
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
	s := &Statistics{Queues: newPerQueue(queues), queues: make(map[string]*flows), recent: list.New()}
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
	flowKinds
)

// flows are the rates of a queue, and its flows in the last hour.
type flows struct {
	rates [flowKinds]rate
	ring  ring
	place *list.Element // of the queue's name among those that were active
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
	step := stepOf(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[queue]
	if q == nil {
		if len(s.queues) >= maxQueues {
			s.forget(s.recent.Front().Value.(string))
		}
		q = &flows{place: s.recent.PushBack(queue)}
		s.queues[queue] = q
	}
	s.recent.MoveToBack(q.place)
	q.rates[f].add(n, now)
	q.ring.count(step, int(f), int64(n))
	s.all.count(step, int(f), int64(n))
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
	return protocol.Rates{Push: q.rates[FlowIn].now(now), Pop: q.rates[FlowOut].now(now), Settle: q.rates[FlowSettled].now(now)}
}
