package events_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/events"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// announced is an announcer in virtual time, with what it has published.
type announced struct {
	*testing.T
	*events.Announcer
	stats *request.Statistics
	came  chan *nats.Msg
}

func newAnnounced(t *testing.T) *announced {
	t.Helper()
	srv := testenv.VirtualNATS(t)
	grammar, err := subjects.New("pq")
	if err != nil {
		t.Fatal(err)
	}
	a := &announced{T: t, stats: request.NewStatistics(nil, 10), came: make(chan *nats.Msg, 1<<12)}
	a.Announcer = events.New(srv.Connect(t), grammar, slog.New(slog.DiscardHandler), a.stats, nil)
	listener := srv.Connect(t)
	if _, err := listener.ChanSubscribe("pq.*.event.*", a.came); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // the server has subscribed it
	return a
}

// lose loses a push to a queue for a reason.
func (a *announced) lose(queue, why string) { a.Lost(queue, 1, failure.Newf(429, "%s", why)) }

// expect checks which losses have been announced by now.
func (a *announced) expect(want ...string) {
	a.Helper()
	synctest.Wait()
	var got []string
	for len(a.came) > 0 {
		m := <-a.came
		var event protocol.ErrorEvent
		if err := json.Unmarshal(m.Data, &event); err != nil || m.Subject != "pq."+event.Queue+".event.error" || event.Code != 429 {
			a.Errorf("%s: %s, %v", m.Subject, m.Data, err)
		}
		got = append(got, fmt.Sprint(event.Queue, " ", event.Count, " ", event.Error))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		a.Errorf("announced %q, expected %q", got, want)
	}
}

// The first lost push is announced at once, later ones together once a second, with the
// last reason. After a second without any the next one is the first again. The end
// announces what is left, and nothing is announced behind it.
func TestLosses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAnnounced(t)
		a.lose("jobs", "a")
		a.lose("mail", "b")
		a.expect("jobs 1 a", "mail 1 b")
		a.lose("jobs", "c")
		a.lose("jobs", "d")
		a.expect()
		<-time.After(time.Second)
		a.expect("jobs 2 d")
		a.lose("jobs", "e")
		<-time.After(time.Second)
		a.expect("jobs 1 e")
		<-time.After(time.Second)
		a.lose("jobs", "f")
		a.expect("jobs 1 f")
		a.lose("jobs", "g")
		a.Close()
		a.expect("jobs 1 g")
		for _, queue := range []string{"jobs", "mail", "new"} {
			a.lose(queue, "late")
		}
		<-time.After(time.Minute)
		a.expect()
		if n := a.stats.Lost(); n != 10 {
			t.Errorf("%d lost pushes are counted, expected 10", n)
		}
	})
}

// Losses of a bounded number of queues are announced, of others when there is room.
func TestLossesOfManyQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAnnounced(t)
		const most = 1024
		for i := range most + 100 {
			a.lose(fmt.Sprint("q", i), "x")
		}
		synctest.Wait()
		if n := len(a.came); n != most {
			t.Errorf("%d events, expected %d", n, most)
		}
		for len(a.came) > 0 {
			<-a.came
		}
		<-time.After(time.Second)
		a.lose("another", "x")
		a.expect("another 1 x")
		a.Close()
	})
}

// Events of items are counted by their type, with or without a listener.
func TestItemEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAnnounced(t)
		a.Items([]fdbpq.Event{{Type: fdbpq.EventDead, Queue: "jobs"}, {Type: fdbpq.EventDead, Queue: "mail"}, {Type: fdbpq.EventEvicted, Queue: "jobs"}})
		for _, want := range []string{"pq.jobs.event.dead", "pq.mail.event.dead", "pq.jobs.event.evicted"} {
			synctest.Wait()
			if m := <-a.came; m.Subject != want {
				t.Errorf("published on %s, expected %s", m.Subject, want)
			}
		}
		if counts := a.Counts(); counts[fdbpq.EventDead] != 2 || counts[fdbpq.EventEvicted] != 1 || len(counts) != 2 {
			t.Errorf("counts %v", counts)
		}
	})
}

// A queue that has deleted itself is announced, and counted.
func TestQueueDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAnnounced(t)
		a.QueueDeleted("jobs")
		synctest.Wait()
		m := <-a.came
		var e protocol.QueueEvent
		if err := json.Unmarshal(m.Data, &e); err != nil || m.Subject != "pq.jobs.event.queue_deleted" {
			t.Errorf("%s: %s, %v", m.Subject, m.Data, err)
		}
		want := protocol.QueueEvent{Type: "io.pq.v1.event.queue_deleted", Time: time.Now().UTC(), Queue: "jobs"}
		if e != want || a.Counts()[protocol.EventQueueDeleted] != 1 {
			t.Errorf("event %+v, expected %+v; counts %v", e, want, a.Counts())
		}
	})
}

// What a schedule has missed is told at once, and counted.
func TestScheduleMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAnnounced(t)
		from := time.Now().UTC()
		a.ScheduleMissed(&schedule.MissedTimes{Queue: "jobs", Schedule: "s", From: from, To: from.Add(time.Second), Count: 2, Reason: "full"})
		synctest.Wait()
		m := <-a.came
		var e protocol.ScheduleEvent
		if err := json.Unmarshal(m.Data, &e); err != nil || m.Subject != "pq.jobs.event.schedule_missed" {
			t.Errorf("%s: %s, %v", m.Subject, m.Data, err)
		}
		want := protocol.ScheduleEvent{Type: "io.pq.v1.event.schedule_missed", Time: from, Queue: "jobs", Schedule: "s", From: from, To: from.Add(time.Second), Count: 2, Reason: "full"}
		if e != want || a.Counts()[protocol.EventScheduleMissed] != 1 {
			t.Errorf("event %+v, expected %+v; counts %v", e, want, a.Counts())
		}
	})
}
