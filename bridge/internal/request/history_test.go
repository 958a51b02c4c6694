package request_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/protocol"
)

// only are numbers of the last hour that are 0 except for some minutes ago.
func only(ago map[int]int64) []int64 {
	all := make([]int64, 60)
	for minutes, n := range ago {
		all[60-minutes] = n
	}
	return all
}

// The history of a queue has what moved in each of the last sixty minutes that are over, and
// how long the queue was when they ended.
func TestQueueHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := request.NewStatistics(nil, 10)
		<-time.After(30 * time.Second)
		s.Moved("jobs", request.FlowIn, 5)
		s.Moved("jobs", request.FlowOut, 2)
		if h := s.QueueHistory("jobs"); !slices.Equal(h.Push, only(nil)) {
			t.Errorf("pushes of the minute under way are told: %v", h.Push)
		}
		<-time.After(30 * time.Second)
		s.Moved("jobs", request.FlowIn, 7)
		s.Moved("jobs", request.FlowSettled, 1)
		if active := s.EndStep(); !slices.Equal(active, []string{"jobs"}) {
			t.Errorf("active are %v", active)
		}
		s.SetLengths([]string{"jobs"}, map[string]request.Lengths{"jobs": {Ready: 3, Delayed: 4}})
		<-time.After(2 * time.Minute)
		h := s.QueueHistory("jobs")
		if !slices.Equal(h.Push, only(map[int]int64{3: 5, 2: 7})) ||
			!slices.Equal(h.Pop, only(map[int]int64{3: 2})) || !slices.Equal(h.Settle, only(map[int]int64{2: 1})) {
			t.Errorf("moved %v, %v and %v", h.Push, h.Pop, h.Settle)
		}
		if want := time.Date(2000, 1, 1, 0, 3, 0, 0, time.UTC); h.Step != 60 || !h.End.Equal(want) {
			t.Errorf("steps of %v s until %s, expected %s", h.Step, h.End, want)
		}
		for name, c := range map[string]struct {
			got  []*int64
			want int64
		}{"ready": {h.Ready, 3}, "leased": {h.Leased, 0}, "delayed": {h.Delayed, 4}} {
			for i, n := range c.got {
				if (n != nil) != (i == 57) || n != nil && *n != c.want {
					t.Errorf("%s: %d minutes ago %v, expected one number, %d, 3 minutes ago", name, 60-i, n, c.want)
				}
			}
		}

		// An hour later it is forgotten, and so is a queue that is gone.
		<-time.After(58 * time.Minute)
		if h := s.QueueHistory("jobs"); !slices.Equal(h.Push, only(map[int]int64{60: 7})) {
			t.Errorf("an hour later %v", h.Push)
		}
		<-time.After(2 * time.Minute)
		s.Moved("gone", request.FlowIn, 1)
		if active := s.EndStep(); !slices.Equal(active, []string{"gone"}) {
			t.Errorf("active are %v", active)
		}
		s.SetLengths([]string{"gone"}, nil)
		if active := s.EndStep(); active != nil {
			t.Errorf("a queue that is gone is active: %v", active)
		}
	})
}

// What settlements did is remembered until an item is acknowledged, and failures are a part of what is settled.
func TestRecent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := request.NewStatistics(nil, 10)
		start := time.Now()
		s.Moved("jobs", request.FlowIn, 5)
		if got := s.Recent("jobs"); got != (request.Recent{}) {
			t.Errorf("before a pop %+v", got)
		}
		s.Moved("jobs", request.FlowOut, 5)
		<-time.After(time.Second)
		s.Settled("jobs", 3, &request.Tally{request.Nacked: 2, request.Returned: 3, request.GivenBack: 1})
		s.Settled("jobs", 0, &request.Tally{})
		s.LeaseLost("jobs", "ann")
		s.LeaseLost("jobs", "bob")
		<-time.After(time.Second)
		s.LeaseLost("jobs", "bob")
		want := request.Recent{Out: start, Failures: 2, Lost: request.Lost{Holder: "bob", Leases: 2, At: start.Add(2 * time.Second)}}
		if got := s.Recent("jobs"); got != want {
			t.Errorf("%+v, expected %+v", got, want)
		}
		if r := s.Rates("jobs"); r.Nack <= 0 || r.Nack > r.Settle*2/3 {
			t.Errorf("rates %+v, expected two failures of three", r)
		}
		<-time.After(time.Minute)
		s.Settled("jobs", 2, &request.Tally{request.Nacked: 1, request.Acknowledged: 1})
		if got, want := s.Recent("jobs"), (request.Recent{Out: start, Acked: start.Add(62 * time.Second)}); got != want {
			t.Errorf("%+v, expected %+v", got, want)
		}
		<-time.After(time.Minute)
		for name, h := range map[string]*protocol.History{"of the queue": s.QueueHistory("jobs"), "of all": s.History()} {
			if want := map[int]int64{3: 2, 1: 1}; !slices.Equal(h.Nacked, only(want)) && !slices.Equal(h.Nacked, only(map[int]int64{2: 2, 1: 1})) {
				t.Errorf("failures %s: %v, expected %v", name, h.Nacked, want)
			}
		}
		if got := s.Recent("other"); got != (request.Recent{}) {
			t.Errorf("another queue: %+v", got)
		}
	})
}

// The history of all queues has what went wrong, too, also of queues that are forgotten.
func TestHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := request.NewStatistics([]string{"ask"}, 2)
		fail := func(code int, n int) {
			for range n {
				s.Count(arrived(ask, 1), &failure.Failure{Code: code})
			}
		}
		for i := range 5000 {
			name := fmt.Sprint("queue", i)
			s.Moved(name, request.FlowIn, 1)
			s.Queues.Count(name, &request.Tally{request.Dead: 1, request.LeasesLost: 2})
		}
		fail(429, 3)
		fail(404, 5) // an empty queue is no error
		<-time.After(time.Minute)
		s.EndStep()
		<-time.After(time.Minute)
		fail(500, 4)
		<-time.After(time.Minute)
		s.EndStep()
		h := s.History()
		for name, c := range map[string][2][]int64{
			"push": {h.Push, only(map[int]int64{3: 5000})}, "pop": {h.Pop, only(nil)}, "dead": {h.Dead, only(map[int]int64{3: 5000})},
			"leases lost": {h.LeasesLost, only(map[int]int64{3: 10000})}, "failed": {h.Failed, only(map[int]int64{3: 3, 1: 4})},
		} {
			if !slices.Equal(c[0], c[1]) {
				t.Errorf("%s: %v, expected %v", name, c[0], c[1])
			}
		}
		if h.Ready != nil {
			t.Errorf("lengths of all queues: %v", h.Ready)
		}
	})
}

// Counting is cheap: it is done for each batch of each queue.
func BenchmarkMoved(b *testing.B) {
	s := request.NewStatistics(nil, 10)
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprint("queue", i))
	}
	for i := range b.N {
		s.Moved(names[i%len(names)], request.FlowIn, 1)
	}
}
