package request_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

var (
	ask    = &request.Verb{Name: "ask"}
	settle = &request.Verb{Name: "settle", Settles: true, Index: 1}
)

// arrived returns a request with a body of this size.
func arrived(v *request.Verb, size int) *request.Request {
	r := &request.Request{}
	r.Prepare(r, v, subjects.Subject{Queue: "jobs"}, &nats.Msg{Data: make([]byte, size)})
	return r
}

// refused checks that the gate has refused a request for the time being.
func refused(t *testing.T, f *failure.Failure, text string) {
	t.Helper()
	if f == nil || f.Code != 429 || f.Reason != protocol.ReasonBusy || !strings.Contains(f.Text, text) {
		t.Errorf("%+v, expected a refusal about %s", f, text)
	}
}

// The gate counts settlements apart from other requests, and both until they leave.
func TestGate(t *testing.T) {
	t.Parallel()
	g := request.NewGate(2, 1<<20)
	var in []*request.Request
	for range 2 {
		in = append(in, arrived(ask, 1))
	}
	for range 8 {
		in = append(in, arrived(settle, 1))
	}
	for _, r := range in {
		if f := g.Enter(r); f != nil {
			t.Fatal(f)
		}
	}
	for range 3 { // a refused one leaves nothing behind
		refused(t, g.Enter(arrived(ask, 1)), "takes 2")
		refused(t, g.Enter(arrived(settle, 1)), "takes 8")
	}
	forced := arrived(settle, 1)
	g.Force(forced)
	if work, settlements, bytes := g.InFlight(); work != 2 || settlements != 9 || bytes != 11 {
		t.Errorf("%d requests, %d settlements and %d bytes are in flight", work, settlements, bytes)
	}
	for range 2 { // a request leaves once
		g.Leave(in[0])
	}
	if f := g.Enter(arrived(ask, 1)); f != nil {
		t.Errorf("refused although one has left: %v", f)
	}
	refused(t, g.Enter(arrived(ask, 1)), "takes 2")
	passing := arrived(ask, 1)
	passing.PassGate()
	g.Leave(passing)
	if work, _, _ := g.InFlight(); work != 2 {
		t.Errorf("%d requests are in flight", work)
	}
}

// Bytes are bounded too, but a single request always enters.
func TestGateBytes(t *testing.T) {
	t.Parallel()
	g := request.NewGate(10, 100)
	large := arrived(ask, 500)
	if f := g.Enter(large); f != nil {
		t.Fatal(f)
	}
	refused(t, g.Enter(arrived(ask, 1)), "takes 100")
	refused(t, g.Enter(arrived(settle, 1)), "takes 100")
	g.Leave(large)
	if f := g.Enter(arrived(ask, 100)); f != nil {
		t.Error(f)
	}
	refused(t, g.Enter(arrived(ask, 1)), "takes 100")
}

// A drain returns when the last request has left, or says how many are left.
func TestGateDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := request.NewGate(10, 1<<20)
		first, last, other := arrived(ask, 1), arrived(ask, 1), arrived(settle, 1)
		for _, r := range []*request.Request{first, last, other} {
			if f := g.Enter(r); f != nil {
				t.Fatal(f)
			}
		}
		g.Leave(first)
		if g.Closed() {
			t.Error("closed")
		}
		g.Close()
		if !g.Closed() {
			t.Error("not closed")
		}
		drained := make(chan error, 1)
		go func() { drained <- g.Work.Drain(t.Context()) }()
		synctest.Wait()
		if len(drained) > 0 {
			t.Error("drained before the last request has left")
		}
		g.Leave(last)
		if err := <-drained; err != nil {
			t.Error(err)
		}
		// The last one has left before, and a return of the bridge's own has come since.
		before := arrived(ask, 1)
		g.Force(before)
		g.Leave(before)
		g.Force(arrived(ask, 1))
		ended, stop := context.WithCancel(t.Context())
		go func() { drained <- g.Work.Drain(ended) }()
		synctest.Wait()
		if len(drained) > 0 {
			t.Error("drained although a request has come since the last one left")
		}
		stop()
		if err := <-drained; err == nil {
			t.Error("drained without the last request")
		}
		late, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.Settlements.Drain(late); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 not answered") {
			t.Errorf("error %v", err)
		}
	})
}

// The time of a request is the time of the work on it: not the wait, and not the attempts
// that found nothing.
func TestTook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := arrived(ask, 0)
		took := func(want time.Duration) {
			t.Helper()
			if got := r.Took(); got != want {
				t.Errorf("took %s, expected %s", got, want)
			}
		}
		<-time.After(time.Second)
		took(time.Second)
		r.BeginWait()
		<-time.After(time.Hour)
		took(time.Second)
		r.BeginAttempt(time.Now())
		<-time.After(time.Minute)
		took(time.Minute + time.Second)
		r.AbandonAttempt()
		<-time.After(time.Hour)
		took(time.Second)
		r.BeginAttempt(time.Now())
		<-time.After(2 * time.Second)
		took(3 * time.Second)
	})
}

// Statistics count answers by status. An empty queue and a wait without an item are
// no errors.
func TestStatistics(t *testing.T) {
	t.Parallel()
	s := request.NewStatistics([]string{"ask", "settle"}, 10)
	s.Count(arrived(ask, 0), nil)
	for _, code := range []int{404, 408, 429, 503} {
		s.Count(arrived(ask, 0), failure.Newf(code, "no"))
	}
	s.Count(arrived(ask, 0), failure.Newf(404, "no"))
	s.RefusedUnread(settle, failure.Newf(503, "no"))
	got := make(map[int]int64)
	s.Verbs[0].Answers(func(code int, n int64) { got[code] += n })
	if got[200] != 1 || got[404] != 2 || got[408] != 1 || got[429] != 1 || got[503] != 1 || len(got) != 5 {
		t.Errorf("answers %v", got)
	}
	if requests, failures := s.Verbs[0].Requests(); requests != 6 || failures != 2 {
		t.Errorf("%d requests, %d errors", requests, failures)
	}
	if code := s.Verbs[0].LastCode(); code != 503 {
		t.Errorf("the last error is %d", code)
	}
	if requests, failures := s.Verbs[1].Requests(); requests != 1 || failures != 1 || s.Verbs[1].LastCode() != 503 {
		t.Errorf("%d settlements, %d errors, the last one %d", requests, failures, s.Verbs[1].LastCode())
	}
}

// The work on requests, the size of transactions and the lateness of schedules are measured.
func TestHistograms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := request.NewStatistics([]string{"ask"}, 10)
		registry := prometheus.NewPedanticRegistry()
		for _, h := range s.Histograms() {
			registry.MustRegister(h)
		}
		r, started := arrived(ask, 0), time.Now()
		<-time.After(2 * time.Second)
		s.Count(r, nil)
		s.Ran(request.KindPop, 7, time.Since(started))
		s.Fired([]time.Duration{time.Second, 2 * time.Second}, -time.Minute)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]float64)
		for _, f := range families {
			got[f.GetName()] += f.Metric[0].GetHistogram().GetSampleSum()
		}
		want := map[string]float64{"pq_request_seconds": 2, "pq_batch_requests": 7, "pq_transaction_seconds": 2, "pq_schedule_lateness_seconds": 3}
		if s.ScheduleClock() != -time.Minute {
			t.Errorf("the clock of schedules is %s away", s.ScheduleClock())
		}
		if !maps.Equal(got, want) || s.Verbs[0].Time() != 2*time.Second {
			t.Errorf("measured %v and %s, expected %v", got, s.Verbs[0].Time(), want)
		}
	})
}

// The rates of a bounded number of queues are remembered: the queues that were active last.
func TestRatesOfManyQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 4096
		s := request.NewStatistics(nil, 10)
		remembered := func(prefix string, n int) (all int) {
			for i := range n {
				if s.Rates(fmt.Sprint(prefix, i)) != (protocol.Rates{}) {
					all++
				}
			}
			return all
		}
		for i := range most {
			s.Moved(fmt.Sprint("idle", i), request.FlowIn, 1000)
		}
		<-time.After(11 * time.Minute)
		if n := remembered("idle", most); n != most {
			t.Errorf("%d queues are remembered, expected %d", n, most)
		}
		for i := range 100 {
			s.Moved(fmt.Sprint("idle", i), request.FlowIn, 1000)
		}
		s.Moved("busy0", request.FlowIn, 1)
		if n := remembered("idle", most); n != most-1 || remembered("idle", 100) != 100 {
			t.Errorf("%d of the other queues are remembered, expected all but one, and those that were active last", n)
		}
		for i := range most {
			s.Moved(fmt.Sprint("busy", i), request.FlowIn, 1)
		}
		if idle, busy := remembered("idle", most), remembered("busy", most); idle > 0 || busy != most {
			t.Errorf("%d and %d queues are remembered, expected none and %d, which were active last", idle, busy, most)
		}
	})
}

// The rate of a queue is an average of about a minute.
func TestRates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := request.NewStatistics(nil, 10)
		s.Moved("jobs", request.FlowOut, 600)
		if r := s.Rates("jobs"); r != (protocol.Rates{Pop: 10}) {
			t.Errorf("rates %+v", r)
		}
		<-time.After(time.Minute)
		if r := s.Rates("jobs"); r.Pop < 3.6 || r.Pop > 3.7 {
			t.Errorf("rates %+v a minute later", r)
		}
		s.Moved("jobs", request.FlowOut, 600)
		s.Moved("jobs", request.FlowSettled, 60)
		if r := s.Rates("jobs"); r.Pop < 13.6 || r.Pop > 13.7 || r.Settle != 1 || r.Push != 0 {
			t.Errorf("rates %+v after more of it", r)
		}
		if r := s.Rates("other"); r != (protocol.Rates{}) {
			t.Errorf("rates of another queue %+v", r)
		}
	})
}
