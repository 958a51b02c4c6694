package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// waitThenPush has a pop wait, and pushes an item when it does.
func (w *world) waitThenPush(t *testing.T, c *client.Client, queue string, opts ...client.PopOption) *client.Item {
	t.Helper()
	waits := seeWaits(t, w.NATS.Connect(t))
	pushed := make(chan struct{})
	go func() {
		defer close(pushed)
		<-waits(queue)
		if _, err := w.client.Queue(queue).Push(t.Context(), []byte("x")); err != nil {
			t.Error(err)
		}
	}()
	item, err := c.Queue(queue).Pop(t.Context(), client.Min, append(opts, client.Wait(time.Hour))...)
	if err != nil {
		t.Fatal(err)
	}
	<-pushed // its answer may come behind the item
	return item
}

// An item for which a pop waited looks like an item that was there.
func TestWaitedForGood(t *testing.T) {
	t.Parallel()
	w := start(t)
	for name, opts := range map[string][]client.PopOption{"jobs": nil, "more": {client.Repeatable()}} {
		item := w.waitThenPush(t, w.client, name, opts...)
		if item.Leased() || item.AckSubject() != "" || item.Deliveries != 0 || item.Fence != 0 || !item.LeaseExpires().IsZero() || string(item.Payload) != "x" {
			t.Errorf("%s: %+v", name, item)
		}
		if err := item.Ack(t.Context()); !errors.Is(err, client.ErrNotLeased) {
			t.Errorf("%s: acknowledging it: %v, expected client.ErrNotLeased", name, err)
		}
		if info, err := w.client.Queue(name).Info(t.Context()); err != nil || info.Ready+info.Leased > 0 {
			t.Errorf("%s: %+v, %v: expected an empty queue", name, info, err)
		}
	}
}

// Where the queue leases by itself, the caller has that lease, and settles it.
func TestWaitedForAtAQueueWithALease(t *testing.T) {
	t.Parallel()
	w := start(t)
	lease := client.Duration(time.Hour)
	if _, err := w.queue.Configure(t.Context(), client.ConfigChange{Lease: &lease}); err != nil {
		t.Fatal(err)
	}
	item := w.waitThenPush(t, w.client, "jobs")
	if left := time.Until(item.LeaseExpires()); !item.Leased() || item.Deliveries != 1 || left < 50*time.Minute {
		t.Errorf("%+v, leased for %s: expected the lease of the queue", item, left)
	}
	if _, term := item.ExtendInterval(time.Now()); term < 50*time.Minute {
		t.Errorf("without an extension it counts as held for %s", term)
	}
	if info, err := w.queue.Info(t.Context()); err != nil || info.Leased != 1 {
		t.Errorf("%+v, %v: expected one lease", info, err)
	}
	if err := item.Ack(t.Context()); err != nil {
		t.Error(err)
	}
}

// Who may pop and not settle waits in one step. The server is asked once for each queue.
func TestWaitWithoutTheRightToSettle(t *testing.T) {
	t.Parallel()
	g := guard(t, mayReceive("_INBOX.>"), func(o *server.Options) {
		o.Users[1].Permissions.Publish.Deny = []string{"spied.*.ack.>"}
	})
	if _, err := g.jobs.Configure(t.Context(), client.ConfigChange{}); err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 10)
	c := g.worker(t, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { told <- err }))
	for range 3 {
		waits := make(chan *client.Item, 1)
		go func() {
			item, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Wait(time.Hour))
			if err != nil {
				t.Error(err)
			}
			waits <- item
		}()
		testenv.Await(t, "the pop waits", func() bool {
			info, err := g.jobs.Info(t.Context())
			return err == nil && info.Waiting == 1
		})
		if _, err := g.jobs.Push(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if item := <-waits; item == nil || item.Leased() {
			t.Errorf("popped %+v", item)
		}
		if info, err := g.jobs.Info(t.Context()); err != nil || info.Leased > 0 {
			t.Errorf("%+v, %v: expected no lease", info, err)
		}
	}
	if err := <-told; !client.AskedWhetherItMay(err) || len(told) > 0 {
		t.Errorf("the error handler heard %v and %d more, expected one question", err, len(told))
	}
	_, err := c.Conn().Subscribe("forbidden", func(*nats.Msg) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-told; client.AskedWhetherItMay(err) {
		t.Errorf("%v: expected it to be no question", err)
	}
}

// scripted is a bridge that answers what a test says to waiting pops, by their number, and to settlements.
type scripted struct {
	mu      sync.Mutex
	waits   []popBody
	settles []string
}

type popBody struct {
	Expires, Confirm time.Duration
	MsgID            string `json:"msg_id"`
	Repeat           bool
}

func script(t *testing.T, wait func(n int, p popBody) *nats.Msg, settle func(n int) *nats.Msg) (*scripted, *client.Client) {
	t.Helper()
	s := new(scripted)
	c := fake(t, func(m *nats.Msg, _ int) *nats.Msg {
		s.mu.Lock()
		defer s.mu.Unlock()
		if strings.Contains(m.Subject, ".ack.may-settle.") {
			return failure("400", "")
		}
		if strings.Contains(m.Subject, ".ack.") {
			s.settles = append(s.settles, string(m.Data))
			return settle(len(s.settles))
		}
		var p popBody
		if len(m.Data) > 0 {
			if err := json.Unmarshal(m.Data, &p); err != nil {
				t.Error(err)
			}
		}
		if p.Expires == 0 {
			return failure("404", "empty")
		}
		s.waits = append(s.waits, p)
		return wait(len(s.waits), p)
	})
	c.AskAgainAfter(testenv.Patience()) // tests count the requests
	return s, c
}

// toConfirm is the answer with an item to confirm.
func toConfirm(id string) *nats.Msg {
	return &nats.Msg{Reply: "pq.jobs.ack.c." + id, Header: nats.Header{"PQ-Id": {id}, "PQ-Fence": {"1"}, "PQ-Deliveries": {"1"}, "PQ-Confirm": {"2030-01-02T03:04:05Z"}}}
}

// An item whose lease is lost before it is acknowledged is somebody else's: the pop waits on.
func TestWaitedForAndLost(t *testing.T) {
	t.Parallel()
	s, c := script(t, func(n int, _ popBody) *nats.Msg { return toConfirm(string(rune('a' + n - 1))) }, func(n int) *nats.Msg {
		if n == 1 {
			return failure("410", "taken")
		}
		return &nats.Msg{}
	})
	item, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Wait(time.Hour))
	if err != nil || item.ID != "b" || !slices.Equal(s.settles, []string{"+ACK", "+ACK"}) {
		t.Errorf("popped %+v, %v; settled %v", item, err, s.settles)
	}
}

// An acknowledgement without an answer leaves open whether the item is gone. It is not handed out, and given back
// if it is not.
func TestWaitedForAndNotAnswered(t *testing.T) {
	t.Parallel()
	s, c := script(t, func(int, popBody) *nats.Msg { return toConfirm("a") }, func(int) *nats.Msg { return nil })
	c = newClient(t, c.Conn(), client.Timeout(200*time.Millisecond))
	_, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Wait(time.Hour))
	fails(t, err, client.ErrUnknownResult, 504, "")
	testenv.Await(t, "it is given back", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Contains(s.settles, "+BACK")
	})
}

// An acknowledgement that was asked for counts, though the context ends.
func TestContextEndsDuringConfirmation(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	_, c := script(t, func(int, popBody) *nats.Msg { return toConfirm("a") }, func(int) *nats.Msg {
		cancel()
		return &nats.Msg{}
	})
	if item, err := c.Queue("jobs").Pop(ctx, client.Min, client.Wait(time.Hour)); err != nil || item.ID != "a" {
		t.Errorf("popped %+v, %v", item, err)
	}
}

// A bridge may answer that nothing has arrived before the time is up. The client asks again until it is.
func TestWaitGoesOnAfterAnEarlyEnd(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]client.PopOption{
		"for good": nil, "repeatable": {client.Repeatable()}, "with a lease": {client.Lease(time.Hour)}, "with an id": {client.PopID("own")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := script(t, func(n int, p popBody) *nats.Msg {
				switch {
				case n < 3:
					return failure("408", "")
				case p.Confirm > 0:
					return toConfirm("a")
				}
				return leasedItem("a", "1", "a")
			}, func(int) *nats.Msg { return &nats.Msg{} })
			item, err := c.Queue("jobs").Pop(t.Context(), client.Min, append(opts, client.Wait(time.Minute))...)
			if err != nil || item.ID != "a" {
				t.Fatalf("popped %+v, %v", item, err)
			}
			for i, p := range s.waits {
				if i > 0 && p.Expires >= s.waits[i-1].Expires || p.Repeat || name == "with an id" && p.MsgID != "own" {
					t.Errorf("the requests were %+v", s.waits)
				}
			}

			// The last one is the last one.
			_, c = script(t, func(int, popBody) *nats.Msg { return failure("408", "") }, func(int) *nats.Msg { return nil })
			_, err = c.Queue("jobs").Pop(t.Context(), client.Min, append(opts, client.Wait(50*time.Millisecond))...)
			fails(t, err, client.ErrEmpty, 408, "")
		})
	}
}
