package client_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// A push with the unique value of an item says so, with an id of the client's own, too.
func TestUnique(t *testing.T) {
	t.Parallel()
	w := start(t)
	push := func(payload string, opts ...client.PushOption) client.Pushed {
		t.Helper()
		return w.push(t, payload, append(opts, client.Unique("doc"))...)
	}
	first := push("first", client.Priority(5), client.UniqueUntilLeased())
	if first.Duplicate {
		t.Errorf("%+v", first)
	}
	for i, opts := range [][]client.PushOption{
		nil, {client.WithoutMsgID()}, {client.MsgID("mine")}, {client.OnConflict(client.Keep)}, {client.OnConflict(client.Replace)},
		{client.OnConflict(client.Raise), client.Priority(2)},
	} {
		if p := push("second", opts...); !p.Duplicate || p.ID != first.ID {
			t.Errorf("push %d: %+v, expected the item %s", i, p, first.ID)
		}
	}
	item, err := w.queue.Get(t.Context(), first.ID)
	if err != nil || item.Unique != "doc" || item.UniqueUntil != client.UntilLeased || string(item.Payload) != "second" || item.Priority != 2 {
		t.Errorf("%+v, %v", item, err)
	}
	for listed, err := range w.queue.List(t.Context(), client.ListOptions{}) {
		if err != nil || listed.Unique != "doc" || listed.UniqueUntil != client.UntilLeased {
			t.Errorf("%+v, %v", listed, err)
		}
	}
	leased := w.pop(t, client.Min, client.Lease(time.Hour))
	if p := push("third"); p.Duplicate {
		t.Errorf("after the first lease: %+v", p)
	}
	if err := leased.Ack(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.pop(t, client.Min, client.Lease(time.Hour))
	_, err = w.queue.Push(t.Context(), nil, client.Unique("doc"), client.OnConflict(client.Replace))
	fails(t, err, client.ErrLeased, 409, client.ReasonLeased)
}

// An import has its unique value, or is refused if another item has it.
func TestUniqueImport(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.push(t, "x").ID
	w.pop(t, client.Min)
	back := &client.Import{ID: id, Unique: "doc", UniqueUntil: client.UntilLeased}
	w.push(t, "in its place", client.Unique("doc"))
	imports := func() error {
		f, err := w.queue.ImportAsync(t.Context(), back)
		if err == nil {
			_, err = f.Result()
		}
		return err
	}
	fails(t, imports(), client.ErrOccupied, 409, client.ReasonOccupied)
	w.pop(t, client.Min)
	if err := imports(); err != nil {
		t.Fatal(err)
	}
	item, err := w.queue.Get(t.Context(), id)
	if err != nil || item.Unique != "doc" || item.UniqueUntil != client.UntilLeased {
		t.Errorf("%+v, %v", item, err)
	}
}

// The client cannot tell what a lost answer said.
func TestUniqueAndLostAnswers(t *testing.T) {
	t.Parallel()
	w := start(t)
	c, _ := w.lossy(t)
	pushed, err := c.Queue("jobs").Push(t.Context(), nil, client.Unique("doc"))
	if err != nil || pushed.Duplicate {
		t.Errorf("%+v, %v", pushed, err)
	}
}
