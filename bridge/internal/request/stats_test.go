package request_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// placed are the queues with counts of their own, and what was pushed to each; _other
// are the others.
func placed(p *request.PerQueue) string {
	queues, rest := p.Counts()
	var text []string
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		text = append(text, fmt.Sprintf("%s:%d", name, queues[name].Tally[request.Pushed]))
	}
	return strings.Join(append(text, fmt.Sprintf("_other:%d", rest.Tally[request.Pushed])), " ")
}

// The queues that are counted first have places, and keep them. Others get the places of
// queues that were never counted, and then none.
func TestPlacesOfQueues(t *testing.T) {
	t.Parallel()
	p := request.NewStatistics(nil, 3).Queues
	push := func(queue string) { p.Count(queue, &request.Tally{request.Pushed: 1}) }
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"nothing", func() { p.Count("a", &request.Tally{}) }, "_other:0"},
		{"a first queue", func() { push("a"); push("a") }, "a:2 _other:0"},
		{"filled by name", func() { p.Fill([]string{"a", "b", "c", "d"}) }, "a:2 b:0 c:0 _other:0"},
		{"one that works", func() { push("z") }, "a:2 b:0 z:1 _other:0"},
		{"another one", func() { push("y") }, "a:2 y:1 z:1 _other:0"},
		{"and no more", func() { push("x"); push("x") }, "a:2 y:1 z:1 _other:2"},
		{"known ones", func() { push("y"); p.Fill([]string{"b"}) }, "a:2 y:2 z:1 _other:2"},
		{"made again meanwhile", func() { p.Look(); push("a"); p.Gone("a") }, "a:3 y:2 z:1 _other:2"},
		{"gone", func() { p.Look(); p.Gone("a"); p.Gone("b") }, "y:2 z:1 _other:2"},
		{"a free place", func() { push("x") }, "x:1 y:2 z:1 _other:2"},
		{"asked for in vain", func() {
			queues, free := p.Look()
			if len(queues) != 3 || free != 0 || p.Most() != 3 {
				t.Errorf("places of %q, and %d free", queues, free)
			}
		}, "x:1 y:2 z:1 _other:2"},
	} {
		step.do()
		if got := placed(p); got != step.want {
			t.Fatalf("%s: %s, expected %s", step.name, got, step.want)
		}
	}
}

// A queue that was filled in and counted keeps its place.
func TestPlaceOfCountedQueue(t *testing.T) {
	t.Parallel()
	p := request.NewStatistics(nil, 2).Queues
	p.Fill([]string{"a", "b"})
	for _, queue := range []string{"a", "b", "c"} {
		p.Count(queue, &request.Tally{request.Pushed: 1})
	}
	if got, want := placed(p), "a:1 b:1 _other:1"; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	none := request.NewStatistics(nil, 0).Queues
	none.Fill([]string{"a"})
	none.Count("a", &request.Tally{request.Pushed: 1})
	if got, want := placed(none), "_other:1"; got != want {
		t.Errorf("without places: %s, expected %s", got, want)
	}
}

// Requests that are not served give no queue a place: they can name any.
func TestNotServedTakesNoPlace(t *testing.T) {
	t.Parallel()
	s := request.NewStatistics([]string{"ask"}, 2)
	refuse := func(queue string, n int) {
		for range n {
			r := arrived(ask, 0)
			r.Subject.Queue = queue
			s.Count(r, failure.Nothing(queue, fdbpq.ReasonBlocked))
		}
	}
	refuse("a", 3)
	s.Queues.Count("a", &request.Tally{request.Pushed: 1})
	refuse("a", 2)
	refuse("b", 1)
	queues, rest := s.Queues.Counts()
	if got := queues["a"].NotServed[protocol.ReasonBlocked]; len(queues) != 1 || got != 2 || rest.NotServed[protocol.ReasonBlocked] != 4 {
		t.Errorf("%v, and the others %v", queues, rest)
	}
}
