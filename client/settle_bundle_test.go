package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

// settles begins to settle a lease.
func settles(t *testing.T, c *client.Client, token string, settle func(*client.Item) error) <-chan error {
	t.Helper()
	item, err := c.Attach("pq.jobs.ack.c." + token)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- settle(item) }()
	return ended
}

func ack(item *client.Item) error { return item.Ack(context.Background()) }

// settlesTogether has settlements go in one message, behind one that is answered then, while 15 others stay unanswered.
func settlesTogether(t *testing.T, d *desk, c *client.Client, settle ...func(*client.Item) error) (m *nats.Msg, ended []<-chan error) {
	t.Helper()
	var other *nats.Msg
	for i := range 16 {
		settles(t, c, fmt.Sprint("other", i), ack)
		other = d.next(t)
	}
	for i, s := range settle {
		ended = append(ended, settles(t, c, string(rune('a'+i)), s))
		await(t, func() bool { return c.Queue("jobs").Waiting() == i+1 })
	}
	d.answer(t, other, emptyAnswer())
	return d.next(t), ended
}

func lines(m *nats.Msg) []string {
	return strings.Split(strings.TrimSuffix(string(m.Data), "\n"), "\n")
}

// Settlements go together however their items were popped, each with its own result.
func TestSettlementsGoTogether(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	var extended *client.Item
	m, ended := settlesTogether(t, d, c, ack,
		func(i *client.Item) error { return i.NackWithDelay(t.Context(), time.Second) },
		func(i *client.Item) error { return i.GiveBack(t.Context(), "stopped") },
		func(i *client.Item) error { return i.Terminate(t.Context(), "two\nlines") },
		func(i *client.Item) error { extended = i; return i.Extend(t.Context()) },
		ack, ack)
	want := []string{
		"pq.jobs.ack.c.a +ACK", `pq.jobs.ack.c.b -NAK {"delay":1000000000}`, "pq.jobs.ack.c.c +BACK stopped",
		"pq.jobs.ack.c.d +TERM two lines", "pq.jobs.ack.c.e +WPI", "pq.jobs.ack.c.f +ACK", "pq.jobs.ack.c.g +ACK",
	}
	if m.Subject != "pq.jobs.ack.bundle.settle" || !slices.Equal(lines(m), want) || m.Header.Get("PQ-Bundle") != "7" {
		t.Fatalf("on %s: %v %q", m.Subject, m.Header, m.Data)
	}
	until := time.Now().Add(time.Hour).UTC().Round(time.Second)
	d.answer(t, m, &nats.Msg{Data: []byte("+OK\n+OK\n+OK\n+OK\n+OK " + until.Format(time.RFC3339) + "\n-ERR 410 taken lost\n-ERR 503 - busy\n")})
	alone := d.next(t) // what may succeed later
	if alone.Subject != "pq.jobs.ack.c.g" || string(alone.Data) != "+ACK" {
		t.Errorf("repeated on %s: %q", alone.Subject, alone.Data)
	}
	d.answer(t, alone, emptyAnswer())
	for i, ended := range ended {
		err := <-ended
		if i == 5 {
			fails(t, err, client.ErrLeaseLost, 410, client.ReasonTaken)
		} else if err != nil {
			t.Errorf("settlement %d: %v", i, err)
		}
	}
	if !extended.LeaseExpires().Equal(until) {
		t.Errorf("the lease lasts until %s, expected %s", extended.LeaseExpires(), until)
	}
}

// A settlement whose caller leaves before it does is not sent, and may be tried again.
func TestCancelledSettlement(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	var other *nats.Msg
	for i := range 16 {
		settles(t, c, fmt.Sprint("other", i), ack)
		other = d.next(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var item *client.Item
	ended := settles(t, c, "a", func(i *client.Item) error { item = i; return i.Ack(ctx) })
	await(t, func() bool { return c.Queue("jobs").Waiting() == 1 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrUnknownResult) {
		t.Errorf("%v, expected the end of the context", err)
	}
	again := make(chan error, 1)
	go func() { again <- item.Ack(t.Context()) }()
	await(t, func() bool { return c.Queue("jobs").Waiting() == 1 })
	d.answer(t, other, emptyAnswer())
	m := d.next(t)
	if m.Subject != "pq.jobs.ack.c.a" {
		t.Errorf("on %s: %q", m.Subject, m.Data)
	}
	d.answer(t, m, emptyAnswer())
	if err := <-again; err != nil {
		t.Error(err)
	}
}

// A bundle whose answer is lost is repeated as it is. That the first attempt has settled the leases is success.
// AckMany sends one message, and returns for each item what is known when its context ends.
func TestCancelledAckMany(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	var items []*client.Item
	for _, token := range []string{"a", "b"} {
		item, err := c.Attach("pq.jobs.ack.c." + token)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan []error, 1)
	go func() { ended <- c.Queue("jobs").AckMany(ctx, items...) }()
	if m := d.next(t); !slices.Equal(lines(m), []string{"pq.jobs.ack.c.a +ACK", "pq.jobs.ack.c.b +ACK"}) {
		t.Errorf("settled %q", m.Data)
	}
	cancel()
	for _, err := range <-ended {
		fails(t, err, client.ErrUnknownResult, 504, "")
	}
	for _, err := range c.Queue("jobs").AckMany(ctx, items...) { // which may be tried again
		if !errors.Is(err, context.Canceled) {
			t.Errorf("with a context that has ended: %v", err)
		}
	}
	d.quiet(t, c)
}

func TestSettlementsWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	m, ended := settlesTogether(t, d, c, ack, ack)
	if err := c.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	again := d.nextBundle(t)
	if string(again.Data) != string(m.Data) {
		t.Errorf("repeated %q as %q", m.Data, again.Data)
	}
	d.answer(t, again, &nats.Msg{Data: []byte("-ERR 410 gone lost\n-ERR 410 taken lost\n")})
	if err := <-ended[0]; err != nil {
		t.Error(err)
	}
	fails(t, <-ended[1], client.ErrLeaseLost, 410, client.ReasonTaken)
}

// Who may settle each lease and not several at once finds that out by a bundle without an answer.
func TestSettlementsWithoutTheRightToBundle(t *testing.T) {
	t.Parallel()
	d := openDesk(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "bridge", Password: "b"},
			{Username: "worker", Password: "w", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"pq.jobs.ack.bundle.*"}},
			}},
		}
	})
	refused := make(chan error, 100)
	c := newClient(t, d.Connect(t, nats.UserInfo("worker", "w"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err })))
	c.AskAgainAfter(50 * time.Millisecond)
	go func() {
		for m := range d.requests {
			_ = m.RespondMsg(emptyAnswer()) // the connection may be closed
		}
	}()
	for range 3 {
		var ended []<-chan error
		for i := range 50 {
			ended = append(ended, settles(t, c, fmt.Sprint(i), ack))
		}
		for _, e := range ended {
			if err := <-e; err != nil {
				t.Error(err)
			}
		}
	}
	for n := 1; len(refused) > 0; n++ {
		if err := <-refused; n > 16 {
			t.Errorf("refused again: %v", err)
		}
	}
}

func TestExtendThenAckKeepTheirOrder(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	var item *client.Item
	m, ended := settlesTogether(t, d, c, func(i *client.Item) error { item = i; return i.Extend(t.Context()) }, ack,
		func(*client.Item) error { return item.Ack(t.Context()) })
	if want := []string{"pq.jobs.ack.c.a +WPI", "pq.jobs.ack.c.b +ACK", "pq.jobs.ack.c.a +ACK"}; !slices.Equal(lines(m), want) {
		t.Errorf("settled %q", lines(m))
	}
	d.answer(t, m, &nats.Msg{Data: []byte("+OK\n+OK\n+OK\n")})
	for _, e := range ended {
		if err := <-e; err != nil {
			t.Error(err)
		}
	}
}
