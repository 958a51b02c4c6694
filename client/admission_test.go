package client_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// guarded is a bridge on a server where the user worker may do everything, and receive in some places.
type guarded struct {
	*testenv.Server
	jobs     *client.Queue // of another user
	requests atomic.Int64  // that came from the worker
}

// mayReceive gives the worker a server on which it may subscribe to these subjects alone.
func mayReceive(subjects ...string) func(*server.Options) {
	return func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "bridge", Password: "b"},
			{Username: "worker", Password: "w", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"spied.>", "pq.>"}},
				Subscribe: &server.SubjectPermission{Allow: subjects},
			}},
		}
	}
}

// guard starts the server and a bridge on it. The worker's prefix is spied: what it sends is counted and goes on.
func guard(t *testing.T, changes ...func(*server.Options)) *guarded {
	t.Helper()
	g := &guarded{Server: testenv.NATS(t, changes...)}
	as := func() *nats.Conn {
		return g.Connect(t, nats.UserInfo("bridge", "b"), nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond))
	}
	b, err := bridge.Start(t.Context(), as(), testenv.Store(t), bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience())
		defer cancel()
		if err := b.Drain(ctx); err != nil {
			t.Error(err)
		}
	})
	spy := as()
	if _, err := spy.Subscribe("spied.>", func(m *nats.Msg) {
		g.requests.Add(1)
		m.Subject = strings.Replace(m.Subject, "spied.", "pq.", 1)
		if err := spy.PublishMsg(m); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := spy.Flush(); err != nil {
		t.Fatal(err)
	}
	g.jobs = newClient(t, as()).Queue("jobs")
	return g
}

// worker is a connection of the worker, and a client on it.
func (g *guarded) worker(t *testing.T, options ...nats.Option) *client.Client {
	t.Helper()
	silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	nc := g.Connect(t, append([]nats.Option{silent, nats.UserInfo("worker", "w"), nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond)}, options...)...)
	return newClient(t, nc, client.Prefix("spied"), client.BridgePrefix("pq"))
}

// refuses checks that no request of a client is sent, and that each says what to do.
func (g *guarded) refuses(t *testing.T, c *client.Client) {
	t.Helper()
	before := g.requests.Load()
	q := c.Queue("jobs")
	for name, ask := range map[string]func(context.Context) error{
		"push": func(ctx context.Context) error { _, err := q.Push(ctx, []byte("b")); return err },
		"push without an id": func(ctx context.Context) error {
			_, err := q.Push(ctx, []byte("b"), client.WithoutMsgID())
			return err
		},
		"push async": func(ctx context.Context) error { _, err := q.PushAsync(ctx, []byte("b")); return err },
		"push many": func(ctx context.Context) error {
			_, err := q.PushMany(ctx, client.NewItem{}, client.NewItem{})
			return err
		},
		"pop":           func(ctx context.Context) error { _, err := q.Pop(ctx, client.Min); return err },
		"repeatable":    func(ctx context.Context) error { _, err := q.Pop(ctx, client.Min, client.Repeatable()); return err },
		"waiting pop":   func(ctx context.Context) error { _, err := q.Pop(ctx, client.Min, client.Wait(time.Hour)); return err },
		"batch":         func(ctx context.Context) error { _, err := q.PopBatch(ctx, client.Min, 3); return err },
		"info":          func(ctx context.Context) error { _, err := q.Info(ctx); return err },
		"cluster":       func(ctx context.Context) error { _, err := c.Cluster(ctx); return err },
		"consume":       func(ctx context.Context) error { return q.Consume(ctx, nil, client.ConsumeOptions{}) },
		"a second time": func(ctx context.Context) error { _, err := q.Push(ctx, []byte("b")); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience())
		err := ask(ctx)
		cancel()
		fails(t, err, nats.ErrPermissionViolation, 403, "")
		for _, says := range []string{`nats.CustomInboxPrefix("_INBOX.worker")`, "pq --inbox-prefix _INBOX.worker", "nothing was sent"} {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v: expected it to say: %s", name, err, says)
			}
		}
	}
	if n := g.requests.Load() - before; n > 0 {
		t.Errorf("%d requests were sent", n)
	}
	if info, err := g.jobs.Info(t.Context()); err != nil || info.Ready != 1 || info.Leased != 0 {
		t.Errorf("%+v, %v: expected the queue as it was", info, err)
	}
}

// Who may not receive answers where the client asks for them sends nothing: otherwise a pop takes an item
// for nobody, and a push that is repeated because it seems to have failed adds a second item.
func TestNoInboxRight(t *testing.T) {
	t.Parallel()
	g := guard(t, mayReceive("_INBOX.worker.>"))
	if _, err := g.jobs.Push(t.Context(), []byte("a")); err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	c := g.worker(t, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case told <- err:
		default:
		}
	}))
	g.refuses(t, c)
	select {
	case <-told:
	case <-testenv.Late():
		t.Error("the program's own error handler heard nothing")
	}

	// With its prefix it may.
	c = g.worker(t, nats.CustomInboxPrefix("_INBOX.worker"))
	if item, err := c.Queue("jobs").Pop(t.Context(), client.Min); err != nil || string(item.Payload) != "a" {
		t.Errorf("with its inbox prefix: %+v, %v", item, err)
	}
}

// The right to receive is lost with a connection. Waiting pops are not sent again on the new one.
func TestNoInboxRightAfterReconnect(t *testing.T) {
	t.Parallel()
	g := guard(t, mayReceive("_INBOX.>", "news.>"))
	c := g.worker(t)
	q := c.Queue("jobs")
	if _, err := q.Configure(t.Context(), client.ConfigChange{}); err != nil {
		t.Fatal(err)
	}
	// The program loses other rights, too, so that the last error is hardly ever about the mailbox.
	for i := range 20 {
		if _, err := c.Conn().Subscribe(fmt.Sprint("news.", i), func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
	}
	waits := make(chan error, 1)
	go func() {
		_, err := q.Pop(t.Context(), client.Min, client.Lease(time.Hour), client.Wait(time.Hour))
		waits <- err
	}()
	testenv.Await(t, "the pop waits", func() bool {
		info, err := g.jobs.Info(t.Context())
		return err == nil && info.Waiting == 1
	})
	g.Restart(t, mayReceive("_INBOX.worker.>"))
	testenv.AwaitAnswer(t, "the bridge is back", func(ctx context.Context) bool {
		_, err := g.jobs.Push(ctx, []byte("a"), client.MsgID("a"))
		return err == nil
	})
	fails(t, <-waits, nats.ErrPermissionViolation, 403, "")
	testenv.AwaitAnswer(t, "the item that the old wait got in vain is back", func(ctx context.Context) bool {
		info, err := g.jobs.Info(ctx)
		return err == nil && info.Ready == 1
	})
	g.refuses(t, c)

	// It comes back with the right.
	g.Restart(t, mayReceive("_INBOX.>"))
	if _, err := q.Info(t.Context()); err != nil { // the bridge is back, and the spy
		t.Fatal(err)
	}
	if item, err := q.Pop(t.Context(), client.Min); err != nil || string(item.Payload) != "a" {
		t.Errorf("with the right to receive: %+v, %v", item, err)
	}
}

// Without a connection nothing is sent, and nothing is in doubt.
func TestNothingIsSentWithoutAConnection(t *testing.T) {
	t.Parallel()
	s := testenv.NATS(t)
	nc := s.Connect(t, nats.MaxReconnects(-1))
	lost := nc.StatusChanged(nats.RECONNECTING)
	s.Shutdown()
	<-lost
	q := newClient(t, nc, client.Timeout(50*time.Millisecond)).Queue("jobs")
	_, pushErr := q.Push(t.Context(), nil)
	_, popErr := q.Pop(t.Context(), client.Min)
	_, infoErr := q.Info(t.Context())
	for _, err := range []error{pushErr, popErr, infoErr} {
		fails(t, err, client.ErrUnavailable, 503, "")
	}
	for _, err := range []error{popErr, infoErr} {
		fails(t, err, context.DeadlineExceeded, 503, "")
	}
}
