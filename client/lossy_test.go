package client_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// lossy makes a client whose requests go through a proxy that loses the answer to the
// first request of each verb, after the bridge has done it. The channel gets the verb of
// each loss.
func (w *world) lossy(t *testing.T) (c *client.Client, losses <-chan string) {
	t.Helper()
	verbs := make(chan string, 10)
	var mu sync.Mutex
	lost := make(map[string]bool)
	lose := func(verb string) bool {
		mu.Lock()
		defer mu.Unlock()
		first := !lost[verb]
		lost[verb] = true
		return first
	}
	verb := func(subject string) string { return strings.Split(subject, ".")[2] }
	c = w.losing(t, func(subject string) bool { return lose(verb(subject)) }, func(subject string) { verbs <- verb(subject) })
	return c, verbs
}

// losing makes a client whose requests go through a proxy. It loses the answers to some, and says so when they
// are there. When the test ends no request is on its way.
func (w *world) losing(t *testing.T, loses func(subject string) bool, lost func(subject string)) *client.Client {
	t.Helper()
	var passing sync.Mutex
	proxy, err := w.nc.Subscribe("lossy.>", func(m *nats.Msg) {
		passing.Lock()
		defer passing.Unlock()
		out := &nats.Msg{Subject: strings.Replace(m.Subject, "lossy.", "pq.", 1), Reply: m.Reply, Header: m.Header, Data: m.Data}
		if loses(out.Subject) {
			out.Reply = ""
			if _, err := w.nc.RequestMsg(out, testenv.Patience()); err != nil {
				t.Errorf("%s: %v", out.Subject, err)
			}
			lost(out.Subject)
			return
		}
		if err := w.nc.PublishMsg(out); err != nil {
			t.Errorf("%s: %v", out.Subject, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = proxy.Unsubscribe() // the connection may be closed
		passing.Lock()
		defer passing.Unlock()
	})
	c := newClient(t, w.nc, client.Prefix("lossy"), client.BridgePrefix("pq"))
	c.AskAgainAfter(50 * time.Millisecond)
	return c
}

func TestLostAnswers(t *testing.T) {
	t.Parallel()
	w := start(t)
	c, _ := w.lossy(t)
	q := c.Queue("jobs")
	ctx := t.Context()

	pushed, err := q.Push(ctx, []byte("a"))
	if err != nil || pushed.Duplicate {
		t.Fatalf("push: %+v, %v", pushed, err)
	}
	if info, err := q.Info(ctx); err != nil || info.Ready != 1 {
		t.Fatalf("info: %+v, %v, expected one item", info, err)
	}
	item, err := q.Pop(ctx, client.Min, client.Repeatable())
	if err != nil || item.ID != pushed.ID {
		t.Fatalf("pop: %+v, %v, expected %s", item, err, pushed.ID)
	}
	if _, err := q.Peek(ctx, client.Min); err == nil {
		t.Fatal("two items came of one push")
	}
}

// Without an id the client does not repeat an unanswered request.
func TestLostAnswersWithoutID(t *testing.T) {
	t.Parallel()
	w := start(t)
	c, losses := w.lossy(t)
	q := c.Queue("jobs")
	// untilLost ends some time after the answer was lost, in which the client would have
	// repeated the request.
	untilLost := func() context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-losses
			<-time.After(200 * time.Millisecond)
			cancel()
		}()
		return ctx
	}
	_, err := q.Push(untilLost(), []byte("a"), client.WithoutMsgID())
	fails(t, err, client.ErrUnknownResult, 504, "")
	fails(t, err, context.Canceled, 504, "")
	w.push(t, "b")
	_, err = q.Pop(untilLost(), client.Min)
	fails(t, err, client.ErrUnknownResult, 504, "")
	if info, err := w.queue.Info(t.Context()); err != nil || info.Ready != 1 {
		t.Errorf("%+v, %v: expected two pushes and one pop", info, err)
	}
}

// fake answers requests under pq in place of a bridge.
func fake(t *testing.T, answer func(m *nats.Msg, n int) *nats.Msg) *client.Client {
	t.Helper()
	nc := testenv.NATS(t).Connect(t)
	n := 0
	_, err := nc.Subscribe("pq.>", func(m *nats.Msg) {
		n++
		time.Sleep(rand.N(150 * time.Millisecond))
		if a := answer(m, n); a != nil {
			own := &nats.Msg{Reply: a.Reply, Header: a.Header, Data: a.Data} // another stand-in may give the same answer at the same time
			// A repeated request may arrive after the end of the test.
			if err := m.RespondMsg(own); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
				t.Errorf("answer %s: %v", m.Subject, err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, nc)
	c.AskAgainAfter(time.Hour) // an answer may be slow, and a refusal of a request that was sent twice says less
	return c
}

// forgetful is a fake that leaves requests without an answer, so the client soon asks again.
func forgetful(t *testing.T, answer func(m *nats.Msg, n int) *nats.Msg) *client.Client {
	t.Helper()
	c := fake(t, answer)
	c.AskAgainAfter(50 * time.Millisecond)
	return c
}

func failure(code, reason string) *nats.Msg {
	return &nats.Msg{Header: nats.Header{
		"Status": {code}, "Nats-Service-Error": {"no"}, "Nats-Service-Error-Code": {code}, "PQ-Reason": {reason},
	}}
}

// A repeated settlement that finds the item gone counts as done, if only the first answer
// was lost.
func TestLostSettlement(t *testing.T) {
	t.Parallel()
	c := forgetful(t, func(m *nats.Msg, n int) *nats.Msg {
		switch {
		case strings.HasSuffix(m.Subject, "pop.min"):
			return &nats.Msg{Header: nats.Header{"PQ-Id": {"i"}, "PQ-Ack": {"pq.jobs.ack.c.t"}}}
		case n == 2:
			return nil
		}
		return failure("410", "gone")
	})
	item, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Lease(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if err := item.Ack(t.Context()); err != nil {
		t.Errorf("ack: %v", err)
	}
	for _, tc := range []struct {
		what, reason string
		settle       func(*client.Item) error
	}{
		{"terminate", "gone", func(i *client.Item) error { return i.Terminate(t.Context(), "why") }},
		{"nack, and the item is gone", "gone", func(i *client.Item) error { return i.Nack(t.Context()) }},
		{"nack, and it was popped again", "taken", func(i *client.Item) error { return i.NackWithDelay(t.Context(), time.Second) }},
	} {
		c := forgetful(t, func(_ *nats.Msg, n int) *nats.Msg {
			if n == 1 {
				return nil
			}
			return failure("410", tc.reason)
		})
		item, err := c.Attach("pq.jobs.ack.c.t")
		if err != nil {
			t.Fatal(err)
		}
		if err := tc.settle(item); err != nil {
			t.Errorf("%s: %v", tc.what, err)
		}
	}
}

// The client tries again after refusals that say that nothing was done.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"409", "429", "503"} {
		c := fake(t, func(m *nats.Msg, n int) *nats.Msg {
			switch {
			case n%3 != 0:
				return failure(code, "")
			case strings.HasSuffix(m.Subject, "push"):
				return &nats.Msg{Data: []byte(`{"type":"io.pq.v1.push_response","stream":"jobs","seq":1,"id":"i","priority":0}`)}
			case strings.HasSuffix(m.Subject, "pop.min"):
				return &nats.Msg{Header: nats.Header{"PQ-Id": {"i"}}}
			}
			return &nats.Msg{Data: []byte(`{}`)}
		})
		q := c.Queue("jobs")
		if _, err := q.Push(t.Context(), nil, client.WithoutMsgID()); err != nil {
			t.Errorf("push after %s: %v", code, err)
		}
		if _, err := q.Pop(t.Context(), client.Min); err != nil {
			t.Errorf("pop after %s: %v", code, err)
		}
		if _, err := q.Purge(t.Context()); err != nil {
			t.Errorf("purge after %s: %v", code, err)
		}
	}
}

// An answer of a responder that is no bridge is an error.
func TestNonsense(t *testing.T) {
	t.Parallel()
	c := fake(t, func(*nats.Msg, int) *nats.Msg { return &nats.Msg{Data: []byte("hello")} })
	q := c.Queue("jobs")
	_, pushErr := q.Push(t.Context(), nil)
	_, popErr := q.Pop(t.Context(), client.Min)
	_, infoErr := q.Info(t.Context())
	_, getErr := q.Get(t.Context(), "i")
	for _, err := range []error{pushErr, popErr, infoErr, getErr} {
		fails(t, err, client.ErrUnknownResult, 504, "")
		if err != nil && !strings.Contains(err.Error(), `"hello"`) {
			t.Errorf("%v: expected it to show the answer", err)
		}
	}
}

// A leased item that arrives after the client stopped waiting is given back.
func TestLateItem(t *testing.T) {
	t.Parallel()
	asked := make(chan *nats.Msg, 1)
	returned := make(chan string, 1)
	c := fake(t, func(m *nats.Msg, n int) *nats.Msg {
		if n == 1 {
			asked <- m
		} else {
			returned <- m.Subject + " " + string(m.Data)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		m := <-asked
		cancel()
		asked <- m
	}()
	if _, err := c.Queue("jobs").Pop(ctx, client.Min, client.Lease(time.Hour)); err == nil {
		t.Fatal("popped although nothing was answered")
	}
	item := &nats.Msg{Subject: (<-asked).Reply, Reply: "pq.jobs.ack.c.t", Header: nats.Header{"PQ-Id": {"i"}}}
	if err := c.Conn().PublishMsg(item); err != nil {
		t.Fatal(err)
	}
	if got := <-returned; got != "pq.jobs.ack.c.t +BACK" {
		t.Errorf("the late item was answered with %s", got)
	}
}

// An item with an ack subject outside its queue is forged: the client does not publish
// there, since it may have rights that the forger lacks.
func TestForgedItem(t *testing.T) {
	t.Parallel()
	for _, forged := range []string{"pq.other.ack.c.t", "pq.jobs.admin.purge", "work.jobs.ack.c.t", "orders.new", "_INBOX.x", "pq.jobs.ack.c.t.u"} {
		for _, header := range []nats.Header{{"PQ-Id": {"i"}}, {"PQ-Id": {"i"}, "PQ-Ack": {forged}}} {
			asked := make(chan *nats.Msg, 2)
			c := fake(t, func(m *nats.Msg, n int) *nats.Msg {
				asked <- m
				return &nats.Msg{Reply: forged, Header: header}
			})
			heard, err := c.Conn().SubscribeSync(forged)
			if err != nil {
				t.Fatal(err)
			}
			item, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Lease(time.Hour))
			if err == nil || !strings.Contains(err.Error(), strconv.Quote(forged)) {
				t.Errorf("%s: got %+v, %v", forged, item, err)
			}
			if forged == "pq.other.ack.c.t" {
				continue // the mailbox does not know the queue; the token tells the bridge
			}
			late := &nats.Msg{Subject: (<-asked).Reply, Reply: forged, Header: header}
			if err := c.Conn().PublishMsg(late); err != nil { // the mailbox has nobody for it any more
				t.Fatal(err)
			}
			if err := c.Conn().Flush(); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Queue("jobs").Peek(t.Context(), client.Min); err == nil { // behind it in the mailbox
				t.Error("peeked at a forged item")
			}
			if m, err := heard.NextMsg(0); err == nil {
				t.Errorf("published %q on %s", m.Data, m.Subject)
			}
		}
	}
}

// The reply subjects of a client cannot be guessed.
func TestReplySubjectsAreRandom(t *testing.T) {
	t.Parallel()
	replies := make(map[string]bool)
	c := fake(t, func(m *nats.Msg, n int) *nats.Msg {
		replies[m.Reply[strings.LastIndexByte(m.Reply, '.')+1:]] = true
		return &nats.Msg{Header: nats.Header{"PQ-Id": {"i"}}}
	})
	for range 100 {
		if _, err := c.Queue("jobs").Pop(t.Context(), client.Min); err != nil {
			t.Fatal(err)
		}
	}
	first := make(map[byte]bool)
	for token := range replies {
		if len(token) < 26 { // 128 bits
			t.Errorf("token %q", token)
		}
		first[token[0]] = true
	}
	if len(replies) != 100 || len(first) < 10 {
		t.Errorf("%d tokens with %d first letters", len(replies), len(first))
	}
}

// A push that begins while the NATS server is away arrives when it is back, also without
// a buffer for reconnects.
func TestServerAway(t *testing.T) {
	t.Parallel()
	for _, buffer := range []int{-1, 8 << 20} {
		w := start(t)
		nc := w.NATS.Connect(t, nats.ReconnectBufSize(buffer), nats.ReconnectWait(time.Millisecond), nats.MaxReconnects(-1))
		c := newClient(t, nc)
		c.AskAgainAfter(50 * time.Millisecond)
		w.push(t, "first") // so that the queue is there
		lost := nc.StatusChanged(nats.RECONNECTING)
		w.NATS.Shutdown()
		<-lost
		f, err := c.Queue("jobs").PushAsync(t.Context(), []byte("second"))
		if err != nil {
			t.Fatal(err)
		}
		item := make(chan error, 1)
		go func() {
			_, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Repeatable())
			item <- err
		}()
		w.NATS.Restart(t)
		if p, err := f.Result(); err != nil || p.Duplicate {
			t.Errorf("with a buffer of %d: push: %+v, %v", buffer, p, err)
		}
		if err := <-item; err != nil {
			t.Errorf("with a buffer of %d: pop: %v", buffer, err)
		}
	}
}

// within fails the test when fn does not return.
func within(t *testing.T, what string, fn func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- fn() }()
	select {
	case err := <-ended:
		return err
	case <-testenv.Late():
		t.Fatalf("%s does not end", what)
		return nil
	}
}

// Refusals end a request that has been repeated for as long as RetryFor says.
func TestRetryForEndsRefusals(t *testing.T) {
	t.Parallel()
	nc := fake(t, func(*nats.Msg, int) *nats.Msg { return failure("503", "") }).Conn()
	q := newClient(t, nc, client.RetryFor(50*time.Millisecond), client.Timeout(time.Hour)).Queue("jobs")
	fails(t, within(t, "a push", func() error {
		_, err := q.Push(t.Context(), nil)
		return err
	}), client.ErrUnavailable, 503, "")
	fails(t, within(t, "a pop", func() error {
		_, err := q.Pop(t.Context(), client.Min)
		return err
	}), client.ErrUnavailable, 503, "")
}

// A context without a deadline gets the client's.
func TestTimeout(t *testing.T) {
	t.Parallel()
	nc := fake(t, func(*nats.Msg, int) *nats.Msg { return nil }).Conn()
	q := newClient(t, nc, client.Timeout(50*time.Millisecond)).Queue("jobs")
	for what, do := range map[string]func() error{
		"push": func() error { _, err := q.Push(t.Context(), nil); return err },
		"pop":  func() error { _, err := q.Pop(t.Context(), client.Min); return err },
		"info": func() error { _, err := q.Info(t.Context()); return err },
	} {
		if err := within(t, what, do); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, expected context.DeadlineExceeded", what, err)
		}
	}
}

// A read that was refused, and not answered when it was repeated, fails with the refusal.
func TestRefusalBeforeSilence(t *testing.T) {
	t.Parallel()
	repeated := make(chan struct{})
	c := fake(t, func(_ *nats.Msg, n int) *nats.Msg {
		if n == 1 {
			return failure("503", "")
		}
		if n == 2 {
			close(repeated)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-repeated
		cancel()
	}()
	_, err := c.Queue("jobs").Info(ctx)
	fails(t, err, client.ErrUnavailable, 503, "")
}

// A client whose account imports the bridge's subjects under another prefix settles there.
func TestBridgePrefix(t *testing.T) {
	t.Parallel()
	nc := testenv.NATS(t).Connect(t)
	if _, err := nc.Subscribe("work.jobs.pop.min", func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"PQ-Id": {"i"}, "PQ-Ack": {"pq.jobs.ack.c.t"}}})
	}); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, nc, client.Prefix("work"), client.BridgePrefix("pq"))
	item, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Lease(time.Hour))
	if err != nil || item.AckSubject() != "work.jobs.ack.c.t" {
		t.Errorf("popped %+v, %v; expected an item that work.jobs.ack.c.t settles", item, err)
	}
}

// A header that may occur once makes an answer unreadable if it occurs twice.
func TestHeadersThatOccurTwice(t *testing.T) {
	t.Parallel()
	for header, values := range map[string][]string{"PQ-Ack": {"pq.jobs.ack.c.t", "pq.jobs.ack.c.u"}, "PQ-Priority": {"1", "2"}} {
		c := fake(t, func(*nats.Msg, int) *nats.Msg {
			return &nats.Msg{Header: nats.Header{"PQ-Id": {"i"}, header: values}}
		})
		item, err := c.Queue("jobs").Pop(t.Context(), client.Min)
		if !errors.Is(err, client.ErrUnknownResult) || !strings.Contains(err.Error(), header) {
			t.Errorf("%s twice: %+v, %v", header, item, err)
		}
	}
}

// A header that only informs costs nobody the item when it cannot be read.
func TestUnreadableHeadersThatInform(t *testing.T) {
	t.Parallel()
	c := fake(t, func(*nats.Msg, int) *nats.Msg {
		return &nats.Msg{Data: []byte("x"), Header: nats.Header{
			"PQ-Id": {"i"}, "PQ-Schedule": {"s"}, "PQ-Scheduled-At": {"nonsense"}, "PQ-Num-Pending": {"99999999999999999999"}, "PQ-Backoff": {"soon"},
			"PQ-Attempts": {`[{"n":1,"end":"then"}]`}, "PQ-Dead-At": {"0"}, "PQ-Dead-Reason": {"a", "b"}, "PQ-Origin": {"home"}, "Nats-Time-Stamp": {"then"}, "PQ-Not-Before": {""},
		}}
	})
	item, err := c.Queue("jobs").Pop(t.Context(), client.Min)
	if err != nil {
		t.Fatal(err)
	}
	if item.ID != "i" || string(item.Payload) != "x" || item.Schedule != "s" || !item.ScheduledAt.IsZero() || item.Pending != 0 || item.Backoff != 0 ||
		item.Attempts != 0 || item.LastAttempts != nil || !item.Pushed.IsZero() || !item.Due.IsZero() || *item.Dead != (client.Death{Origin: "home"}) {
		t.Errorf("popped %+v", item)
	}
}

// A push that was refused until its context ended fails with the refusal.
func TestPushRefusedToTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := fake(t, func(_ *nats.Msg, n int) *nats.Msg {
		if n == 3 {
			cancel()
		}
		return failure("503", "")
	})
	if _, err := c.Queue("jobs").Push(ctx, nil); err == nil || !strings.Contains(err.Error(), "(503)") {
		t.Errorf("%v, expected it to name the 503", err)
	}
}

// The client does not try again after refusals that another attempt does not mend.
func TestRefusalsForGood(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		code, reason string
		want         error
	}{{"506", "", client.ErrDamaged}, {"409", "occupied", client.ErrOccupied}} {
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan struct{}, 100)
		c := fake(t, func(*nats.Msg, int) *nats.Msg {
			asked <- struct{}{}
			if len(asked) > 1 {
				cancel()
			}
			return failure(tc.code, tc.reason)
		})
		_, err := c.Queue("jobs").Push(ctx, nil)
		cancel()
		if n := len(asked); !errors.Is(err, tc.want) || n != 1 {
			t.Errorf("%s: %v after %d requests, expected %v after one", tc.code, err, n, tc.want)
		}
	}
}
