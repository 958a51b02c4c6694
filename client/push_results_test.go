package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// A push asks for the result of its item. Get and lists show for how long it is kept, and an import takes that along.
func TestResultTTL(t *testing.T) {
	t.Parallel()
	from, to := start(t), start(t)
	asks := from.push(t, "asks", client.ResultTTL(90*time.Second))
	many, err := from.queue.PushMany(t.Context(), client.NewItem{Options: []client.PushOption{client.ResultTTL(25 * time.Hour)}}, client.NewItem{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]time.Duration{asks.ID: 10 * time.Minute, many[0].ID: 168 * time.Hour, many[1].ID: 0}
	for l, err := range from.queue.List(t.Context(), client.ListOptions{Bodies: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if kept := time.Duration(l.ResultTTL); kept != want[l.ID] {
			t.Errorf("the list has %s of %s, expected %s", kept, l.ID, want[l.ID])
		}
		f, err := to.queue.ImportAsync(t.Context(), &client.Import{ID: l.ID, Payload: l.Body, ResultTTL: time.Duration(l.ResultTTL)})
		if err == nil {
			_, err = f.Result()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, q := range map[string]*client.Queue{"pushed": from.queue, "imported": to.queue} {
		for id, kept := range want {
			if item, err := q.Get(t.Context(), id); err != nil || item.ResultTTL != kept {
				t.Errorf("%s: %+v, %v, expected %s", name, item, err, kept)
			}
		}
	}
	for _, ttl := range []time.Duration{0, -time.Second, 168*time.Hour + 1} {
		_, err := from.queue.Push(t.Context(), nil, client.ResultTTL(ttl))
		var e *client.Error
		if !errors.As(err, &e) || e.Code != 400 {
			t.Errorf("a push with %s: %v, expected 400", ttl, err)
		}
	}
}

// Where there is no room for results, pushes that ask for them are refused: alone, among others that leave with them, and of a bundle as
// a whole.
func TestNoRoomForResults(t *testing.T) {
	t.Parallel()
	w := start(t)
	if _, err := w.queue.Configure(t.Context(), client.ConfigChange{ResultBytes: new(int64(300))}); err != nil {
		t.Fatal(err)
	}
	q, release := w.crowd(t, client.RetryFor(time.Nanosecond))
	plain, asks := async(t, q, "plain"), async(t, q, "asks", client.ResultTTL(time.Hour))
	behind := async(t, q, "behind")
	release()
	for _, f := range []*client.Future{plain, behind} {
		if _, err := f.Result(); err != nil {
			t.Error(err)
		}
	}
	_, err := asks.Result()
	fails(t, err, client.ErrBusy, 429, client.ReasonResults)
	_, err = q.Push(t.Context(), nil, client.ResultTTL(time.Hour))
	fails(t, err, client.ErrBusy, 429, client.ReasonResults)
	_, err = q.PushMany(t.Context(), client.NewItem{}, client.NewItem{Options: []client.PushOption{client.ResultTTL(time.Hour)}})
	fails(t, err, client.ErrBusy, 429, client.ReasonResults)
	var e *client.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	if item, one := e.Item(); !one || item != 1 {
		t.Errorf("the error is about item %d, %t: expected item 1", item, one)
	}
	if info, err := w.queue.Info(t.Context()); err != nil || info.Ready != 2 {
		t.Errorf("%+v, %v, expected the two items that ask for nothing", info, err)
	}
}
