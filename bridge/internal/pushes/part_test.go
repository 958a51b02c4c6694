package pushes

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/events"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// deskOf is a desk of a queue without a name, and says what it has counted.
func deskOf() (*desk.Desk, func() request.Tally) {
	stats := request.NewStatistics([]string{"push"}, 2)
	return &desk.Desk{Responder: &request.Responder{Stats: stats, Gate: request.NewGate(1, 1)}}, func() request.Tally {
		queues, rest := stats.Queues.Counts()
		total := rest.Tally
		for _, q := range queues {
			for i, n := range q.Tally {
				total[i] += n
			}
		}
		return total
	}
}

// An item that was there already, or was refused, does not count as added, nor does it settle the lease of a hand-over.
func TestWhatCountsAsAdded(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	l, counts := deskOf()
	pushing := &part{Desk: l, pushed: []fdbpq.Pushed{{}, {Duplicate: true}, {Err: refused}, {}}}
	for i := range pushing.pushed {
		pushing.happened(&fdbpq.NewItem{HandOver: &fdbpq.Lease{}}, &pushing.pushed[i])
		pushing.happened(&fdbpq.NewItem{}, &pushing.pushed[i])
	}
	pushing.Answer(nil, nil)
	if got, want := counts(), (request.Tally{request.Pushed: 2, request.Duplicates: 1, request.Acknowledged: 2}); got != want {
		t.Errorf("pushes count as %v, expected %v", got, want)
	}
	l, counts = deskOf()
	importing := &imports{Desk: l, imported: []fdbpq.Imported{{}, {Found: new(fdbpq.StoredItem)}, {Err: refused}}}
	importing.Answer(nil, nil)
	if got, want := counts(), (request.Tally{request.Imported: 1}); got != want {
		t.Errorf("imports count as %v, expected %v", got, want)
	}
}

// Each item of a bundle settles the lease that it has from another queue.
func TestHandOversOfABundle(t *testing.T) {
	t.Parallel()
	l, counts := deskOf()
	r := &push{bundle: []fdbpq.NewItem{{}, {HandOver: &fdbpq.Lease{Queue: "jobs"}}, {HandOver: &fdbpq.Lease{Queue: "jobs"}}}}
	r.Prepare(r, new(request.Verb), subjects.Subject{}, new(nats.Msg))
	r.Bundled = 3
	r.PassGate()
	pushing := &part{Desk: l, pushed: make([]fdbpq.Pushed, 3)}
	pushing.Answer([]desk.Work{r}, nil)
	if got, want := counts(), (request.Tally{request.Pushed: 3, request.Acknowledged: 2}); got != want {
		t.Errorf("the bundle counts as %v, expected %v", got, want)
	}
}

// An import that is refused may have found an item past its TTL, whose end is announced.
func TestRefusedImportAnnouncesWhatExpired(t *testing.T) {
	t.Parallel()
	l, counts := deskOf()
	l.Log = slog.New(slog.DiscardHandler)
	l.Events = events.New(nil, subjects.Grammar{}, l.Log, l.Stats, nil)
	r := new(importing)
	r.Prepare(r, new(request.Verb), subjects.Subject{Queue: "jobs"}, new(nats.Msg))
	r.PassGate()
	importing := &imports{Desk: l, imported: []fdbpq.Imported{{Err: fdbpq.ErrOccupied, Events: []fdbpq.Event{{Type: fdbpq.EventExpired, Queue: "jobs"}}}}}
	importing.Answer([]desk.Work{r}, nil)
	if got, want := counts(), (request.Tally{request.Expired: 1}); got != want {
		t.Errorf("the import counts as %v, expected %v", got, want)
	}
}

// A full store looks for what adds no row: for the repetition of a push, an item to replace, and a lease that ends.
func TestPushesThatNeedNoRoom(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		item fdbpq.NewItem
		want bool
	}{
		"a new item":     {fdbpq.NewItem{Payload: []byte("x"), Key: "k"}, false},
		"a repetition":   {fdbpq.NewItem{MsgID: "1"}, true},
		"a unique value": {fdbpq.NewItem{Unique: "u"}, true},
		"a hand-over":    {fdbpq.NewItem{HandOver: &fdbpq.Lease{}}, true},
	} {
		if got := needsNoRoom(tc.item); got != tc.want {
			t.Errorf("%s may need no room: %t", name, got)
		}
	}
}

// An import is the item that is there if payload and headers are the same; headers have no order.
func TestImportOfTheSameItem(t *testing.T) {
	t.Parallel()
	found := &fdbpq.StoredItem{Item: fdbpq.Item{Headers: []byte("A: 1\r\nB: 2\r\nB: 3\r\n"), Payload: []byte("x")}}
	for _, tc := range []struct {
		headers, payload string
		want             bool
	}{
		{"A: 1\r\nB: 2\r\nB: 3\r\n", "x", true},
		{"B: 3\r\nA: 1\r\nB: 2\r\n", "x", true},
		{"A: 1\r\nB: 2\r\nB: 3\r\n", "y", false},
		{"A: 1\r\nB: 2\r\n", "x", false},
		{"A: 1\r\nB: 2\r\nB: 2\r\n", "x", false},
		{"", "x", false},
	} {
		if got := same(found, &fdbpq.Import{Headers: []byte(tc.headers), Payload: []byte(tc.payload)}); got != tc.want {
			t.Errorf("%q with %q is the item that is there: %t", tc.payload, tc.headers, got)
		}
	}
}
