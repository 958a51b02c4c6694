package bridge

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge/failure"
	"github.com/pqbridge/pqbridge/protocol"
)

// statistics count the work of a bridge since it started.
type statistics struct {
	verbs   []verbStats  // as in the table of verbs
	lost    atomic.Int64 // pushes without a reply subject that were not stored
	latency *prometheus.HistogramVec
	batches *prometheus.HistogramVec
	times   *prometheus.HistogramVec

	mu     sync.Mutex
	queues map[string]*flows
}

// verbStats counts the requests of a verb.
type verbStats struct {
	served   atomic.Int64
	failed   [len(protocol.ErrorCodes)]atomic.Int64
	nanos    atomic.Int64
	lastCode atomic.Int32
	latency  prometheus.Observer
}

// requests counts requests and errors for discovery. An empty queue is no error, nor
// is a wait without an item.
func (v *verbStats) requests() (requests, errors int64) {
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

// kind is a kind of transaction.
type kind uint8

const (
	kindPush kind = iota
	kindImport
	kindPop
	kindChange
	kindRead
)

var kindNames = [...]string{"push", "import", "pop", "change", "read"}

func newStatistics() *statistics {
	s := &statistics{queues: make(map[string]*flows)}
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
	s.verbs = make([]verbStats, len(verbs))
	for i, v := range verbs {
		s.verbs[i].latency = s.latency.WithLabelValues(v.name)
	}
	return s
}

// count counts a request that was answered.
func (s *statistics) count(r *request, f *failure.Failure) {
	v := &s.verbs[r.verb.index]
	took := r.took()
	v.nanos.Add(int64(took))
	v.latency.Observe(took.Seconds())
	if f == nil {
		v.served.Add(1)
		return
	}
	v.failed[slices.Index(protocol.ErrorCodes[:], f.Code)].Add(1)
	if f.Code != 404 && f.Code != 408 {
		v.lastCode.Store(int32(f.Code))
	}
}

// refusedUnread counts a request that was refused unread.
func (s *statistics) refusedUnread(by *verb, f *failure.Failure) {
	v := &s.verbs[by.index]
	v.failed[slices.Index(protocol.ErrorCodes[:], f.Code)].Add(1)
	v.lastCode.Store(int32(f.Code))
}

// ran counts a transaction.
func (s *statistics) ran(k kind, requests int, started time.Time) {
	s.batches.WithLabelValues(kindNames[k]).Observe(float64(requests))
	s.times.WithLabelValues(kindNames[k]).Observe(time.Since(started).Seconds())
}

// flow is a way in which items move.
type flow uint8

const (
	flowIn flow = iota
	flowOut
	flowSettled
	flowKinds
)

// flows are the rates of a queue.
type flows [flowKinds]rate

// rate is an average of the last minute or so, in items a second.
type rate struct {
	value float64
	at    time.Time
}

const (
	rateWindow = time.Minute
	maxQueues  = 4096 // whose rates are remembered
)

func (r *rate) now(now time.Time) float64 {
	return r.value * math.Exp(-now.Sub(r.at).Seconds()/rateWindow.Seconds())
}

func (r *rate) add(n int, now time.Time) {
	r.value, r.at = r.now(now)+float64(n)/rateWindow.Seconds(), now
}

// moved counts items of a queue.
func (s *statistics) moved(queue string, f flow, n int) {
	if n == 0 {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[queue]
	if q == nil {
		if len(s.queues) >= maxQueues {
			s.forget(now)
		}
		q = new(flows)
		s.queues[queue] = q
	}
	q[f].add(n, now)
}

// forget removes the rates of idle queues, or else of any queue.
func (s *statistics) forget(now time.Time) {
	for name, q := range s.queues {
		if busy := slices.ContainsFunc(q[:], func(r rate) bool { return now.Sub(r.at) < 10*rateWindow }); !busy {
			delete(s.queues, name)
		}
	}
	for name := range s.queues {
		if len(s.queues) < maxQueues {
			return
		}
		delete(s.queues, name)
	}
}

// rates are those of the last minute or so that went through this bridge.
func (s *statistics) rates(queue string) protocol.Rates {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[queue]
	if q == nil {
		return protocol.Rates{}
	}
	return protocol.Rates{Push: q[flowIn].now(now), Pop: q[flowOut].now(now), Settle: q[flowSettled].now(now)}
}
