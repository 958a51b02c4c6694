package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// world is a bridge and a client of it.
type world struct {
	*testenv.Bridged
	nc     *nats.Conn
	client *client.Client
	queue  *client.Queue
}

func start(t *testing.T, opts ...client.Option) *world {
	t.Helper()
	b := testenv.Bridge(t, bridge.Options{})
	w := &world{Bridged: b, nc: b.NATS.Connect(t)}
	w.client = newClient(t, w.nc, opts...)
	w.queue = w.client.Queue("jobs")
	return w
}

func newClient(t *testing.T, nc *nats.Conn, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(nc, append([]client.Option{client.Timeout(testenv.Patience())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// push pushes payloads that end in their priority.
func (w *world) push(t *testing.T, payload string, opts ...client.PushOption) client.Pushed {
	t.Helper()
	p, err := w.queue.Push(t.Context(), []byte(payload), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pop pops one item and fails the test when there is none.
func (w *world) pop(t *testing.T, end client.End, opts ...client.PopOption) *client.Item {
	t.Helper()
	item, err := w.queue.Pop(t.Context(), end, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return item
}

func payloads(items []*client.Item) string {
	var all []string
	for _, item := range items {
		all = append(all, string(item.Payload))
	}
	return strings.Join(all, " ")
}

// fails checks an error's kind, code and reason.
func fails(t *testing.T, err, kind error, code int, reason client.Reason) {
	t.Helper()
	var e *client.Error
	if !errors.Is(err, kind) || !errors.As(err, &e) || e.Code != code || e.Reason != reason {
		t.Errorf("the error is %v (%+v), expected %v with code %d and reason %q", err, e, kind, code, reason)
	}
}

func TestNewRefusesPrefix(t *testing.T) {
	t.Parallel()
	if _, err := client.New(nil, client.Prefix("a b")); err == nil || !strings.Contains(err.Error(), "prefix") {
		t.Errorf("a prefix with a space: %v, expected an error about the prefix", err)
	}
}

func TestQueueNames(t *testing.T) {
	t.Parallel()
	w := start(t)
	q := w.client.Queue("no such.name")
	ctx := t.Context()
	_, pushErr := q.Push(ctx, nil)
	_, popErr := q.Pop(ctx, client.Min)
	_, infoErr := q.Info(ctx)
	consumeErr := q.Consume(ctx, nil, client.ConsumeOptions{})
	for _, err := range []error{pushErr, popErr, infoErr, consumeErr} {
		if err == nil || !strings.Contains(err.Error(), "queue name") {
			t.Errorf("%v: expected an error about the queue's name", err)
		}
	}
}

func TestNoResponders(t *testing.T) {
	t.Parallel()
	nc := testenv.NATS(t).Connect(t)
	q := newClient(t, nc, client.RetryFor(time.Nanosecond)).Queue("jobs")
	_, pushErr := q.Push(t.Context(), []byte("x"))
	_, popErr := q.Pop(t.Context(), client.Min)
	_, infoErr := q.Info(t.Context())
	for _, err := range []error{pushErr, popErr, infoErr} {
		fails(t, err, client.ErrUnavailable, 503, "")
		if !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%v: expected it to be nats.ErrNoResponders too", err)
		}
	}
}

func TestContexts(t *testing.T) {
	t.Parallel()
	w := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, pushErr := w.queue.Push(ctx, []byte("x"))
	_, popErr := w.queue.Pop(ctx, client.Min)
	_, infoErr := w.queue.Info(ctx)
	for _, err := range []error{pushErr, popErr, infoErr} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v: expected context.Canceled", err)
		}
	}
}
