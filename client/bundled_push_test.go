package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

// crowd makes a queue whose pushes go to the bridge together: no request reaches it until release is called.
func (w *world) crowd(t *testing.T, opts ...client.Option) (q *client.Queue, release func()) {
	t.Helper()
	gate := make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	c := w.through(t, func(*nats.Msg) *nats.Msg {
		<-gate
		return nil
	}, opts...)
	return c.Queue("jobs"), release
}

// A full queue takes the first ones of a bundle, and refuses the others.
func TestFullQueueTakesWhatFits(t *testing.T) {
	t.Parallel()
	const n, room = 64, 3
	w := start(t)
	if _, err := w.queue.Configure(t.Context(), client.ConfigChange{MaxLength: new(int64(room))}); err != nil {
		t.Fatal(err)
	}
	q, release := w.crowd(t, client.RetryFor(time.Nanosecond))
	var futures []*client.Future
	for i := range n {
		futures = append(futures, async(t, q, fmt.Sprint(i)))
	}
	release()
	added, full := 0, 0
	for _, f := range futures {
		switch _, err := f.Result(); {
		case err == nil:
			added++
		case errors.Is(err, client.ErrBusy):
			full++
		default:
			t.Error(err)
		}
	}
	if added != room || full != n-room {
		t.Errorf("%d were added and %d refused, expected %d and %d", added, full, room, n-room)
	}
	if info, err := w.queue.Info(t.Context()); err != nil || info.Ready != room {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestTwoCallersOneMsgID(t *testing.T) {
	t.Parallel()
	const n = 40
	w := start(t)
	q, release := w.crowd(t)
	var futures []*client.Future
	for i := range n {
		futures = append(futures, async(t, q, "x", client.MsgID(fmt.Sprint(i/2))))
	}
	release()
	for i := 0; i < n; i += 2 {
		first, err := futures[i].Result()
		second, err2 := futures[i+1].Result()
		if err != nil || err2 != nil || first.Duplicate || !second.Duplicate || first.ID != second.ID {
			t.Errorf("pushes %d: %+v, %v; %+v, %v", i, first, err, second, err2)
		}
	}
	if info, err := w.queue.Info(t.Context()); err != nil || info.Ready != n/2 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestUniqueConflictsWithinABundle(t *testing.T) {
	t.Parallel()
	const n = 40
	w := start(t)
	leased := w.push(t, "leased", client.Unique("leased"))
	w.pop(t, client.Min, client.Lease(time.Hour))
	q, release := w.crowd(t, client.MixPriorities())
	var fill []*client.Future
	for range n - 7 {
		fill = append(fill, async(t, q, "fill", client.Priority(9)))
	}
	doc := client.Unique("doc")
	futures := []*client.Future{
		async(t, q, "first", doc, client.Priority(9)),
		async(t, q, "kept", doc, client.Priority(9)),
		async(t, q, "replaced", doc, client.Priority(9), client.OnConflict(client.Replace)),
		async(t, q, "no", client.Priority(9), client.Unique("leased"), client.OnConflict(client.Replace)),
		async(t, q, "raised", doc, client.Priority(2), client.OnConflict(client.Raise)),
		async(t, q, "last", client.Priority(9)),
		async(t, q, "kept, too", client.Priority(9), client.Unique("leased")),
	}
	release()
	first, err := futures[0].Result()
	if err != nil || first.Duplicate {
		t.Fatalf("%+v, %v", first, err)
	}
	for i, id := range map[int]string{1: first.ID, 2: first.ID, 4: first.ID, 6: leased.ID} {
		if p, err := futures[i].Result(); err != nil || !p.Duplicate || p.ID != id {
			t.Errorf("push %d: %+v, %v, expected the item %s", i, p, err, id)
		}
	}
	_, err = futures[3].Result()
	fails(t, err, client.ErrLeased, 409, client.ReasonLeased)
	succeeds(t, append(fill, futures[5])...)
	item, err := w.queue.Get(t.Context(), first.ID)
	if err != nil || string(item.Payload) != "replaced" || item.Priority != 2 {
		t.Errorf("%+v, %v", item, err)
	}
}

// One of many that is wrong hurts its caller alone, at a bridge that refuses each on its own.
func TestManyCallersOneBadItem(t *testing.T) {
	t.Parallel()
	const n = 40
	w := start(t)
	q, release := w.crowd(t)
	var good []*client.Future
	var bad *client.Future
	for i := range n {
		if i == n-3 {
			bad = async(t, q, "x", client.Delay(-time.Second))
		} else {
			good = append(good, async(t, q, "x"))
		}
	}
	release()
	succeeds(t, good...)
	_, err := bad.Result()
	fails(t, err, err, 400, "")
	if info, err := w.queue.Info(context.Background()); err != nil || info.Ready != n-1 {
		t.Errorf("%+v, %v", info, err)
	}
}
