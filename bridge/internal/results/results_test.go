package results_test

import (
	"encoding/base64"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/pops"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/results"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/tuple"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// A result that no answer can carry is an error, and stays where it is.
func TestUnshowableResult(t *testing.T) {
	t.Parallel()
	db, err := local.Open(t.TempDir(), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	w, err := codec.New("pq", nil, func() int64 { return 64 << 10 })
	if err != nil {
		t.Fatal(err)
	}
	w.Limit.Refresh()
	at := &reads.Desk{Desk: &desk.Desk{Wire: w, Store: store}}
	at.Begin("jobs")
	for size, code := range map[int]int{1 << 10: 0, 64 << 10: 413} {
		q := results.Result(subjects.Result).(reads.Query)
		if err := db.Update(t.Context(), func(tx kv.Tx) error {
			pushed, err := at.Queue.Push(tx, fdbpq.NewItem{ResultTTL: time.Hour})
			if err != nil {
				return err
			}
			taken, err := at.Queue.Lease(tx, fdbpq.Selection{Limit: 1}, time.Hour)
			if err != nil {
				return err
			}
			if _, err := at.Queue.AckWith(tx, *taken.Items[0].Lease, make([]byte, size)); err != nil {
				return err
			}
			q.Head().Prepare(q, verb, subjects.Subject{Queue: "jobs", Verb: subjects.Result, ID: pushed[0].ID.String()}, new(nats.Msg))
			if f := q.Read(w); f != nil {
				t.Fatal(f)
			}
			return q.Find(&reads.View{Desk: at, Reader: tx})
		}); err != nil {
			t.Fatal(err)
		}
		f := q.Head().Failure
		if (f != nil) != (code != 0) || f != nil && (f.Code != code || q.Bytes() != 0) || f == nil && q.Bytes() != int64(size) {
			t.Errorf("a result of %d bytes: %v, with %d bytes; expected %d", size, f, q.Bytes(), code)
		}
	}
}

var verb = &request.Verb{Name: "result", Traced: true}

// line is requests that wait, none of which finds a result, without a store.
type line struct {
	testing.TB
	*results.Waits
	gate  *request.Gate
	looks atomic.Int64
	held  chan reads.Query // looks that the test ends; nil: they end at once
}

const places = 4

func newLine(t testing.TB, sight *listening.Sight) *line {
	l := &line{TB: t, gate: request.NewGate(1<<10, 1<<30)}
	re := &request.Responder{Log: slog.New(slog.DiscardHandler), Stats: request.NewStatistics([]string{verb.Name}, 0), Gate: l.gate}
	l.Waits = results.New(results.Options{
		Desk: desk.Desk{Responder: re}, Exclusive: true, Places: places, Submit: l.look, LookEvery: results.LookEvery,
		Clients: pops.NewWaits(pops.WaitsOptions{Responder: re, Sight: sight, Unseen: time.Minute}),
	})
	return l
}

// sightOf sees clients of which a server in this process says who listens; without it, none.
func sightOf(nc *nats.Conn, listens listening.Interest) *listening.Sight {
	return listening.NewSight(listening.NewAsker(nc, listens, slog.New(slog.DiscardHandler)))
}

// look has a request find that its item has not ended.
func (l *line) look(_ string, q reads.Query) {
	l.looks.Add(1)
	if l.held != nil {
		l.held <- q
		return
	}
	results.FindNothing(q)
}

// ask has a request for the result of an item wait.
func (l *line) ask(id fdbpq.ID, reply string) *request.Request {
	l.Helper()
	q := results.Result(subjects.Result)
	r := q.Head()
	r.Prepare(q, verb, subjects.Subject{Queue: "jobs", Verb: subjects.Result, ID: id.String()}, &nats.Msg{Reply: reply, Header: nats.Header{protocol.HeaderWait: {"1h"}}})
	if f := q.Read(nil); f != nil {
		l.Fatal(f)
	}
	if f := l.gate.Enter(r); f != nil {
		l.Fatal(f)
	}
	l.Take(q)
	return r
}

// empty expects that nothing is left of requests.
func (l *line) empty() {
	l.Helper()
	queues, _ := l.Awaited("")
	if work, _, bytes := l.gate.InFlight(); work != 0 || bytes != 0 || l.Waiting() != 0 || queues != 0 {
		l.Errorf("after the ends of all waits %d requests of %d bytes are in flight, %d wait, and items of %d queues are awaited",
			work, bytes, l.Waiting(), queues)
	}
}

// pass has time pass, and what happens in it happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// item is the id of the n-th item.
func item(t testing.TB, n int64) fdbpq.ID {
	t.Helper()
	id, err := fdbpq.ParseID(base64.RawURLEncoding.EncodeToString(tuple.AppendBytes(tuple.AppendInt(tuple.AppendInt(nil, 1), n), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// The end of an item may come while a request for its result begins to wait. The request leaves the gate as often as it was let in.
func TestEndsWhileWaitsBegin(t *testing.T) {
	t.Parallel()
	l := newLine(t, sightOf(new(nats.Conn), nil))
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !over.Load() {
			l.Finished("jobs", fdbpq.ID{})
		}
	}()
	for range 2000 {
		l.ask(item(t, 1), "")
		l.Close(pops.ErrShutdown)
		l.Open()
	}
	over.Store(true)
	<-done
	l.empty()
}

// A request looks when its item ends, and once in a while: a purge in another process tells nobody. It is in flight while it looks,
// and waits for a short time only if nobody sees its client.
func TestLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, sightOf(new(nats.Conn), nil))
		q, other := l.ask(item(t, 1), ""), l.ask(item(t, 2), "")
		looks := func(want int64, after string) {
			t.Helper()
			if n := l.looks.Swap(0); n != want {
				t.Errorf("%s requests have looked %d times, expected %d", after, n, want)
			}
			if work, _, _ := l.gate.InFlight(); work != 0 {
				t.Errorf("%s %d requests are in flight", after, work)
			}
		}
		looks(2, "at first")
		l.Finished("jobs", item(t, 1))
		looks(1, "at the end of an item")
		l.Finished("jobs", fdbpq.ID{})
		looks(2, "after a purge")
		l.Finished("jobs", item(t, 3))
		l.Finished("mails", item(t, 1))
		looks(0, "at the ends of other items")
		for _, after := range []string{"after a while", "after another while"} {
			pass(results.LookEvery)
			looks(2, after)
		}
		if now := time.Now(); !q.Arrived.Equal(now) || !other.Arrived.Equal(now) {
			t.Errorf("the looks wait in their line since %s and %s ago", now.Sub(q.Arrived), now.Sub(other.Arrived))
		}
		_, over := l.Awaited("jobs")
		pass(time.Minute - 2*results.LookEvery)
		for _, q := range []*request.Request{q, other} {
			if q.Failure == nil || q.Failure.Code != 408 {
				t.Errorf("a request of a client that nobody sees has ended with %v", q.Failure)
			}
		}
		l.empty()
		select {
		case <-over:
		default:
			t.Error("ends of items of the queue are still looked for")
		}
	})
}

// A request that looks while its item ends looks again: what it reads may be older.
func TestItemEndsDuringALook(t *testing.T) {
	t.Parallel()
	l := newLine(t, sightOf(new(nats.Conn), nil))
	l.held = make(chan reads.Query, 2)
	l.ask(item(t, 1), "")
	l.Finished("jobs", item(t, 1))
	l.Finished("jobs", item(t, 1))
	if n := l.looks.Load(); n != 1 {
		t.Errorf("it looks %d times at once", n)
	}
	results.FindNothing(<-l.held)
	if len(l.held) != 1 {
		t.Fatal("it does not look again")
	}
	results.FindNothing(<-l.held)
	if len(l.held) != 0 {
		t.Error("it looks a third time, and nothing has happened")
	}
	l.Close(pops.ErrShutdown)
	l.empty()
}

// A request that was answered keeps no place, and looks no more.
func TestAnsweredRequests(t *testing.T) {
	t.Parallel()
	l := newLine(t, sightOf(new(nats.Conn), nil))
	l.held = make(chan reads.Query, 2)
	l.ask(item(t, 1), "")
	results.FindNothing(<-l.held)
	l.Finished("jobs", item(t, 1))
	l.Desk.Refuse((<-l.held).Head(), &failure.Failure{Code: 404})
	l.empty()
	if l.Finished("jobs", item(t, 1)); len(l.held) != 0 {
		t.Error("it looks after its answer")
	}
}

// A client that does not listen any more keeps no place.
func TestClientsGo(t *testing.T) {
	t.Parallel()
	nc := testenv.NATS(t).Connect(t)
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, sightOf(nc, func(_ uint64, replies []string) ([]string, bool) {
			return slices.DeleteFunc(replies, func(reply string) bool { return strings.HasSuffix(reply, ".there") }), true
		}))
		gone, there := l.ask(item(t, 1), "_INBOX.worker.gone"), l.ask(item(t, 1), "_INBOX.worker.there")
		pass(time.Minute)
		if gone.Failure != pops.ErrGone || there.Failure != nil || l.Waiting() != 1 {
			t.Errorf("the wait of a client that has gone ended with %v, that of another one with %v; %d wait", gone.Failure, there.Failure, l.Waiting())
		}
		l.Finished("jobs", item(t, 1))
		pass(time.Hour)
		if there.Failure == nil || there.Failure.Code != 408 {
			t.Errorf("at the end of its time a wait ended with %v", there.Failure)
		}
		l.empty()
	})
}
