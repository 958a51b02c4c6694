package pushes

import (
	"errors"
	"testing"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// lane is a lane of a queue without a name, and says what it has counted.
func lane() (*desk.Lane, func() request.Tally) {
	stats := request.NewStatistics(nil, 1)
	return &desk.Lane{Responder: &request.Responder{Stats: stats}}, func() request.Tally {
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
	l, counts := lane()
	pushing := &part{Lane: l, pushed: []fdbpq.Pushed{{}, {Duplicate: true}, {Err: refused}, {}}}
	for i := range pushing.pushed {
		pushing.happened(&fdbpq.NewItem{HandOver: &fdbpq.Lease{}}, &pushing.pushed[i])
		pushing.happened(&fdbpq.NewItem{}, &pushing.pushed[i])
	}
	pushing.Answer(nil, nil)
	if got, want := counts(), (request.Tally{request.Pushed: 2, request.Duplicates: 1, request.Acknowledged: 2}); got != want {
		t.Errorf("pushes count as %v, expected %v", got, want)
	}
	l, counts = lane()
	importing := &imports{Lane: l, imported: []fdbpq.Imported{{}, {Found: new(fdbpq.StoredItem)}, {Err: refused}}}
	importing.Answer(nil, nil)
	if got, want := counts(), (request.Tally{request.Imported: 1}); got != want {
		t.Errorf("imports count as %v, expected %v", got, want)
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
