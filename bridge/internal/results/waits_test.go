package results

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/pops"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

var verb = &request.Verb{Name: "result", Traced: true}

// line is requests that wait, none of which finds a result, without a store.
type line struct {
	*Waits
	gate  *request.Gate
	looks atomic.Int64
}

func newLine(places int) *line {
	l := &line{gate: request.NewGate(1<<10, 1<<30)}
	re := &request.Responder{Log: slog.New(slog.DiscardHandler), Stats: request.NewStatistics([]string{verb.Name}, 0), Gate: l.gate}
	seen := listening.NewAsker(new(nats.Conn), func(uint64, []string) ([]string, bool) { return nil, true }, re.Log)
	l.Waits = New(Options{
		Lane: desk.Lane{Responder: re}, Exclusive: true, Places: places,
		Clients: pops.NewWaits(pops.WaitsOptions{Responder: re, Sight: listening.NewSight(seen), Unseen: time.Hour}),
		Submit: func(_ string, q reads.Query) {
			l.looks.Add(1)
			q.(*result).pending = true
			q.Answer(nil)
		},
	})
	return l
}

// ask has a request for the result of an item wait.
func (l *line) ask(t *testing.T, id fdbpq.ID) {
	t.Helper()
	q := &result{id: id, wait: time.Hour}
	q.Prepare(q, verb, subjects.Subject{Queue: "jobs"}, &nats.Msg{Subject: "pq.jobs.result.x"})
	if f := l.gate.Enter(&q.Request); f != nil {
		t.Fatal(f)
	}
	l.Enter("jobs", q)
}

// The end of an item may come while a request for its result begins to wait. The request leaves the gate as often as it was let in.
func TestEndsWhileWaitsBegin(t *testing.T) {
	t.Parallel()
	l := newLine(1)
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !over.Load() {
			l.Finished("jobs", fdbpq.ID{})
		}
	}()
	for range 2000 {
		l.ask(t, fdbpq.ID{})
		l.Close(pops.ErrShutdown)
		l.Open()
	}
	over.Store(true)
	<-done
	if work, _, bytes := l.gate.InFlight(); work != 0 || bytes != 0 || l.Waiting() != 0 || len(l.queues) != 0 {
		t.Errorf("after the ends of all waits %d requests of %d bytes are in flight, %d wait, and items of %d queues are awaited",
			work, bytes, l.Waiting(), len(l.queues))
	}
}
