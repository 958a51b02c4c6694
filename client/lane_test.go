package client_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// A call alone sends what it sends without bundles.
func TestLoneCallSendsTodaysMessage(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	for _, opts := range [][]client.Option{nil, {client.MaxBundle(1)}} {
		c := d.client(t, opts...)
		q := c.Queue("jobs")
		item, err := c.Attach("pq.jobs.ack.c.t")
		if err != nil {
			t.Fatal(err)
		}
		options := []client.PushOption{client.MsgID("m"), client.Key("k"), client.Header(nats.Header{"A": {"b"}})}
		for _, tc := range []struct {
			do      func() error
			subject string
			header  nats.Header
			data    string
		}{
			{func() error { _, err := q.Push(t.Context(), []byte("x"), options...); return err },
				"pq.jobs.push", nats.Header{"Nats-Msg-Id": {"m"}, "PQ-Key": {"k"}, "A": {"b"}}, "x"},
			{func() error {
				_, err := q.Push(t.Context(), []byte("x"), append(options, client.Priority(-7))...)
				return err
			},
				"pq.jobs.push.-7", nats.Header{"Nats-Msg-Id": {"m"}, "PQ-Key": {"k"}, "A": {"b"}}, "x"},
			{func() error { return item.Extend(t.Context()) }, "pq.jobs.ack.c.t", nil, "+WPI"},
			{func() error { return item.Ack(t.Context()) }, "pq.jobs.ack.c.t", nil, "+ACK"},
		} {
			done := make(chan error, 1)
			go func() { done <- tc.do() }()
			m := d.next(t)
			if m.Subject != tc.subject || string(m.Data) != tc.data || !maps.EqualFunc(m.Header, tc.header, slices.Equal) {
				t.Errorf("sent %s %v %q", m.Subject, m.Header, m.Data)
			}
			d.answer(t, m, adds(t, m, nil))
			if err := <-done; err != nil {
				t.Errorf("%s: %v", tc.subject, err)
			}
			if n := c.Lanes(); n > 0 {
				t.Errorf("%d lanes are left", n)
			}
		}
	}
}

// sixteen has sixteen messages of one push each under way, on a queue.
func sixteen(t *testing.T, d *desk, q *client.Queue, opts ...client.PushOption) (futures []*client.Future, all []*nats.Msg) {
	t.Helper()
	for i := range 16 {
		futures = append(futures, async(t, q, fmt.Sprintf("p%d", i), opts...))
		all = append(all, d.next(t))
	}
	return futures, all
}

// async pushes and does not wait for the answer.
func async(t *testing.T, q *client.Queue, payload string, opts ...client.PushOption) *client.Future {
	t.Helper()
	return asyncWithin(t, t.Context(), q, payload, opts...)
}

// asyncWithin is async with a context of the caller's.
func asyncWithin(t *testing.T, ctx context.Context, q *client.Queue, payload string, opts ...client.PushOption) *client.Future {
	t.Helper()
	f, err := q.PushAsync(ctx, []byte(payload), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// succeeds checks that pushes were added under their payloads.
func succeeds(t *testing.T, futures ...*client.Future) {
	t.Helper()
	for i, f := range futures {
		if p, err := f.Result(); err != nil || p.ID == "" || p.Duplicate {
			t.Errorf("push %d: %+v, %v", i, p, err)
		}
	}
}

func TestNoCallWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	q := d.client(t).Queue("jobs")
	futures, all := sixteen(t, d, q)
	for _, m := range all {
		d.answer(t, m, adds(t, m, nil))
	}
	succeeds(t, futures...)
}

func TestCallsBehindSixteenLeaveAtTheNextLanding(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	q := c.Queue("jobs")
	futures, all := sixteen(t, d, q)
	for _, payload := range []string{"a", "b", "c"} {
		futures = append(futures, async(t, q, payload))
	}
	d.quiet(t, c)
	other := async(t, c.Queue("other"), "x")
	m := d.next(t)
	if m.Subject != "pq.other.push" {
		t.Fatalf("another queue waits, and %s came", m.Subject)
	}
	d.answer(t, m, adds(t, m, nil))
	succeeds(t, other)

	d.answer(t, all[7], adds(t, all[7], nil))
	if m = d.next(t); payloadsOf(t, m) != "a b c" {
		t.Errorf("behind the answer %q left", payloadsOf(t, m))
	}
	for _, m := range append(slices.Delete(all, 7, 8), m) {
		d.answer(t, m, adds(t, m, nil))
	}
	succeeds(t, futures...)
	if n := c.Lanes(); n > 0 {
		t.Errorf("%d lanes are left", n)
	}
}

// together has some pushes of an idle lane go in one message, behind others that stay unanswered until the end.
func together(t *testing.T, d *desk, q *client.Queue, push func()) *nats.Msg {
	t.Helper()
	_, all := sixteen(t, d, q)
	push()
	d.answer(t, all[0], adds(t, all[0], nil))
	return d.next(t)
}

func TestBadItemHurtsOnlyItsCaller(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	q := d.client(t).Queue("jobs")
	var futures []*client.Future
	m := together(t, d, q, func() {
		for _, payload := range []string{"a", "b", "c"} {
			futures = append(futures, async(t, q, payload))
		}
	})
	if m.Header.Get("PQ-Each") != "true" {
		t.Errorf("the headers of a bundle are %v", m.Header)
	}
	d.answer(t, m, adds(t, m, map[string]protocol.Error{"b": {Code: 400, Description: "no"}}))
	succeeds(t, futures[0], futures[2])
	_, err := futures[1].Result()
	fails(t, err, err, 400, "")
}

// A bundle that a bridge cannot read fails for all its callers, and none of them is tried in another form.
func TestRefusedBundle(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	q := c.Queue("jobs")
	var futures []*client.Future
	m := together(t, d, q, func() {
		for _, payload := range []string{"a", "b"} {
			futures = append(futures, async(t, q, payload))
		}
	})
	d.answer(t, m, failure("400", ""))
	for _, f := range futures {
		_, err := f.Result()
		fails(t, err, err, 400, "")
	}
	m, ended := settlesTogether(t, d, c, ack, ack)
	d.answer(t, m, failure("400", ""))
	for _, e := range ended {
		err := <-e
		fails(t, err, err, 400, "")
	}
	d.quiet(t, c)
}

// What has to stay a message of its own goes alone and waits for no answer, and does not overtake those before it.
func TestWhatGoesAlone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		payload string
		option  client.PushOption
	}{
		"traced":      {"x", client.Header(nats.Header{"Nats-Trace-Dest": {"traces"}})},
		"hands over":  {"x", client.Header(nats.Header{"PQ-Settle": {"pq.jobs.ack.c.t"}})},
		"a large one": {strings.Repeat("x", 16<<10), client.Key("k")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDesk(t)
			q := d.client(t).Queue("jobs")
			futures, all := sixteen(t, d, q)
			for _, payload := range []string{"a", "b"} {
				futures = append(futures, async(t, q, payload))
			}
			futures = append(futures, async(t, q, tc.payload, tc.option))
			for _, payload := range []string{"c", "d"} {
				futures = append(futures, async(t, q, payload))
			}
			before, alone := d.next(t), d.next(t)
			if payloadsOf(t, before) != "a b" || alone.Header.Get("PQ-Bundle") != "" || string(alone.Data) != tc.payload {
				t.Errorf("%q went, then %.20q with %v", payloadsOf(t, before), alone.Data, alone.Header)
			}
			if len(alone.Header) != 2 { // its own, and an id
				t.Errorf("the headers of what goes alone are %v", alone.Header)
			}
			for _, m := range all[:3] {
				d.answer(t, m, adds(t, m, nil))
			}
			behind := d.next(t)
			if payloadsOf(t, behind) != "c d" {
				t.Errorf("%q went behind it", payloadsOf(t, behind))
			}
			for _, m := range append(all[3:], before, alone, behind) {
				d.answer(t, m, adds(t, m, nil))
			}
			succeeds(t, futures...)
		})
	}
}

func TestCancelledBeforeItLeavesAddsNothing(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	q := d.client(t).Queue("jobs")
	_, all := sixteen(t, d, q)
	ctx, cancel := context.WithCancel(t.Context())
	b := asyncWithin(t, ctx, q, "b")
	c := async(t, q, "c")
	cancel()
	if _, err := b.Result(); !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrUnknownResult) {
		t.Errorf("%v, expected the end of the context", err)
	}
	d.answer(t, all[0], adds(t, all[0], nil))
	m := d.next(t)
	if payloadsOf(t, m) != "c" {
		t.Errorf("%q left", payloadsOf(t, m))
	}
	d.answer(t, m, adds(t, m, nil))
	succeeds(t, c)
}

func TestCancelledUnderWayIsUnknownAndOneItem(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	q := d.client(t).Queue("jobs")
	ctx, cancel := context.WithCancel(t.Context())
	var b, c *client.Future
	m := together(t, d, q, func() {
		b = asyncWithin(t, ctx, q, "b")
		c = async(t, q, "c")
	})
	cancel()
	_, err := b.Result()
	fails(t, err, client.ErrUnknownResult, 504, "")
	fails(t, err, context.Canceled, 504, "")
	// The other one still waits, so the message is repeated, with both.
	d.answer(t, m, failure("503", ""))
	again := d.next(t)
	if !slices.EqualFunc(frames(t, m), frames(t, again), func(a, b frame) bool {
		return a.payload == b.payload && a.header.Get("Nats-Msg-Id") == b.header.Get("Nats-Msg-Id")
	}) {
		t.Errorf("repeated %q as %q", m.Data, again.Data)
	}
	d.answer(t, again, adds(t, again, nil))
	succeeds(t, c)
}

// A push of a bundle that could not be sent yet goes with it later, although its caller has left.
func TestCancelledWhileItsBundleIsNotSentYet(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	away := make(chan error, 100)
	nc := d.Connect(t, nats.ReconnectWait(time.Millisecond), nats.MaxReconnects(-1))
	c := newClient(t, nc, client.OnRefusal(func(err error) { away <- err }))
	c.AskAgainAfter(time.Hour)
	q := c.Queue("jobs")
	push := func(payload string) (*client.Future, func()) {
		ctx, cancel := context.WithCancel(t.Context())
		return asyncWithin(t, ctx, q, payload), cancel
	}
	_, cancelFirst := push("first")
	d.next(t)
	for range 15 {
		push("x")
		d.next(t)
	}
	stays, _ := push("stays")
	leaves, cancel := push("leaves")
	lost := nc.StatusChanged(nats.RECONNECTING)
	d.Shutdown()
	<-lost
	cancelFirst() // so the others leave
	<-away
	cancel()
	if _, err := leaves.Result(); !errors.Is(err, client.ErrUnknownResult) {
		t.Errorf("%v, expected an unknown result", err)
	}
	d.Restart(t)
	d.connect(t)
	m := d.nextBundle(t)
	if payloadsOf(t, m) != "stays leaves" {
		t.Errorf("%q left", payloadsOf(t, m))
	}
	d.answer(t, m, adds(t, m, nil))
	succeeds(t, stays)
}

func TestLastCallerLeavesNothingIsRepeated(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	q := c.Queue("jobs")
	ctx, cancel := context.WithCancel(t.Context())
	var futures []*client.Future
	m := together(t, d, q, func() {
		for range 2 {
			futures = append(futures, asyncWithin(t, ctx, q, "b"))
		}
	})
	later := async(t, q, "later")
	cancel()
	for _, f := range futures {
		_, err := f.Result()
		fails(t, err, client.ErrUnknownResult, 504, "")
	}
	next := d.next(t) // the place of the bundle is free
	if payloadsOf(t, next) != "later" {
		t.Errorf("%q left", payloadsOf(t, next))
	}
	d.answer(t, m, failure("503", ""))
	d.answer(t, next, adds(t, next, nil))
	succeeds(t, later)
	if err := c.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	// The sixteen are repeated, and the bundle is not.
	for range 15 {
		if m := d.next(t); m.Header.Get("PQ-Bundle") != "" {
			t.Errorf("repeated %q", m.Data)
		}
	}
}

// ids are the ids of the items of messages.
func ids(t *testing.T, all ...*nats.Msg) (ids []string) {
	for _, m := range all {
		for _, f := range frames(t, m) {
			ids = append(ids, f.header.Get("Nats-Msg-Id"))
		}
	}
	return ids
}

func TestLostAnswerRepeatedNothingTwice(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	q := c.Queue("jobs")
	var futures []*client.Future
	m := together(t, d, q, func() {
		for _, payload := range []string{"a", "b"} {
			futures = append(futures, async(t, q, payload))
		}
	})
	if err := c.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	again := d.nextBundle(t)
	if got, want := ids(t, again), ids(t, m); !slices.Equal(got, want) || len(slices.Compact(want)) != 2 || slices.Contains(want, "") {
		t.Errorf("the ids were %q, then %q", want, got)
	}
	duplicates := strings.ReplaceAll(string(adds(t, again, nil).Data), `"id"`, `"duplicate":true,"id"`)
	d.answer(t, again, &nats.Msg{Data: []byte(duplicates)})
	succeeds(t, futures...) // its own duplicates are no news
}

func TestLostAnswerThenTakenApartNothingTwice(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	q := c.Queue("jobs")
	var futures []*client.Future
	m := together(t, d, q, func() {
		for _, payload := range []string{"a", "b"} {
			futures = append(futures, async(t, q, payload, client.Unique(payload)))
		}
	})
	if err := c.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	again := d.nextBundle(t)
	d.answer(t, again, failure("413", ""))
	var alone []*nats.Msg
	for len(alone) < 2 {
		if one := d.next(t); strings.Contains("a b", payloadsOf(t, one)) {
			alone = append(alone, one)
			body := strings.ReplaceAll(string(adds(t, one, nil).Data), `"id"`, `"duplicate":true,"id"`)
			d.answer(t, one, &nats.Msg{Data: []byte(body)})
		}
	}
	if got, want := ids(t, alone...), ids(t, m); !slices.Equal(got, want) {
		t.Errorf("the ids were %q, then %q", want, got)
	}
	succeeds(t, futures...)
}

func TestWithoutMsgIDNeverRepeatedNorMixed(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	q := c.Queue("jobs")
	ctx, cancel := context.WithCancel(t.Context())
	var with []*client.Future
	var without []*client.Future
	first := together(t, d, q, func() {
		for _, payload := range []string{"a", "b"} {
			with = append(with, async(t, q, payload))
		}
		for _, payload := range []string{"c", "d"} {
			without = append(without, asyncWithin(t, ctx, q, payload, client.WithoutMsgID()))
		}
	})
	if payloadsOf(t, first) != "a b" || slices.Contains(ids(t, first), "") {
		t.Errorf("first %q went, with the ids %q", payloadsOf(t, first), ids(t, first))
	}
	d.answer(t, first, adds(t, first, nil))
	succeeds(t, with...)
	second := d.next(t)
	if payloadsOf(t, second) != "c d" || !slices.Equal(ids(t, second), []string{"", ""}) {
		t.Errorf("then %q went, with the ids %q", payloadsOf(t, second), ids(t, second))
	}
	if err := c.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	for range 15 {
		if m := d.next(t); m.Header.Get("PQ-Bundle") != "" {
			t.Errorf("repeated %q", m.Data)
		}
	}
	cancel()
	for _, f := range without {
		_, err := f.Result()
		fails(t, err, client.ErrUnknownResult, 504, "")
	}
}

// The server refuses the subject without a priority, or all but one priority. The client does not try.
func TestOnlyPushFiveAndOnlyPushStar(t *testing.T) {
	t.Parallel()
	for _, allowed := range []string{"pq.jobs.push.5", "pq.jobs.push.*"} {
		t.Run(allowed, func(t *testing.T) {
			t.Parallel()
			d := openDesk(t, func(o *server.Options) {
				o.Users = []*server.User{
					{Username: "bridge", Password: "b"},
					{Username: "worker", Password: "w", Permissions: &server.Permissions{
						Publish: &server.SubjectPermission{Allow: []string{allowed}},
					}},
				}
			})
			refused := make(chan error, 100)
			nc := d.Connect(t, nats.UserInfo("worker", "w"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
			c := newClient(t, nc)
			c.AskAgainAfter(time.Hour)
			var futures []*client.Future
			for i := range 64 {
				priority := int64(5)
				if strings.HasSuffix(allowed, "*") {
					priority = int64(i % 3)
				}
				futures = append(futures, async(t, c.Queue("jobs"), "x", client.Priority(priority)))
			}
			bundles := 0
			for n := 0; n < len(futures); {
				m := d.next(t)
				if m.Header.Get("PQ-Bundle") != "" {
					bundles++
				}
				all := frames(t, m)
				for _, f := range all {
					if f.header.Get("PQ-Priority") != "" {
						t.Errorf("on %s: %v", m.Subject, f.header)
					}
				}
				n += len(all)
				d.answer(t, m, adds(t, m, nil))
			}
			succeeds(t, futures...)
			if bundles == 0 {
				t.Error("none went together")
			}
			if err := nc.Flush(); err != nil {
				t.Error(err)
			}
			select {
			case err := <-refused:
				t.Error(err)
			default:
			}
		})
	}
}

// Pushes of several priorities go together where the program has said, or shown, that it may.
func TestPrioritiesGoTogether(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]client.Option{"shown": nil, "said": {client.MixPriorities()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDesk(t)
			q := d.client(t, opts...).Queue("jobs")
			if opts == nil {
				first := async(t, q, "first")
				m := d.next(t)
				d.answer(t, m, adds(t, m, nil))
				succeeds(t, first)
			}
			var futures []*client.Future
			m := together(t, d, q, func() {
				for i := range 3 {
					futures = append(futures, async(t, q, fmt.Sprint(i), client.Priority(int64(-i))))
				}
				futures = append(futures, async(t, q, "3"))
			})
			var priorities []string
			for _, f := range frames(t, m) {
				priorities = append(priorities, f.header.Get("PQ-Priority"))
			}
			if m.Subject != "pq.jobs.push" || payloadsOf(t, m) != "0 1 2 3" || !slices.Equal(priorities, []string{"0", "-1", "-2", ""}) {
				t.Errorf("%q went to %s with the priorities %q", payloadsOf(t, m), m.Subject, priorities)
			}
			d.answer(t, m, adds(t, m, nil))
			succeeds(t, futures...)
		})
	}
}

// That the user may push without a priority turns out while pushes of one priority wait. Later ones do not overtake them.
func TestPrioritiesGoTogetherInOrder(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := d.client(t)
	q := c.Queue("jobs")
	five := client.Priority(5)
	_, all := sixteen(t, d, q, five)
	futures := []*client.Future{async(t, q, "a", five), async(t, q, "plain")}
	m := d.next(t)
	d.answer(t, m, adds(t, m, nil))
	succeeds(t, futures[1])
	futures[1] = async(t, q, "b", five)
	d.quiet(t, c)
	d.answer(t, all[0], adds(t, all[0], nil))
	if m = d.next(t); m.Subject != "pq.jobs.push.5" || payloadsOf(t, m) != "a b" {
		t.Errorf("%q went to %s", payloadsOf(t, m), m.Subject)
	}
	d.answer(t, m, adds(t, m, nil))
	succeeds(t, futures...)
}

func TestMaxPayloadShrinksAtReconnect(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	nc := d.Connect(t, nats.ReconnectWait(time.Millisecond), nats.MaxReconnects(-1))
	c := newClient(t, nc)
	c.AskAgainAfter(time.Hour)
	q := c.Queue("jobs")
	var futures []*client.Future
	large := strings.Repeat("x", 10<<10)
	m := together(t, d, q, func() {
		for range 5 {
			futures = append(futures, async(t, q, large))
		}
	})
	if n := len(frames(t, m)); n != 5 {
		t.Fatalf("%d of 5 went together", n)
	}
	d.Restart(t, func(o *server.Options) { o.MaxPayload = 16 << 10 })
	d.connect(t)
	for n := 0; n < 5; {
		one := d.next(t)
		if len(one.Data) > 16<<10 {
			continue // it came before the restart
		}
		if payloadsOf(t, one) == large {
			n++
		}
		d.answer(t, one, adds(t, one, nil))
	}
	succeeds(t, futures...)
}

func TestAsyncOrderAcrossBundles(t *testing.T) {
	t.Parallel()
	const n = 500
	d := openDesk(t)
	q := d.client(t, client.MaxBundle(7)).Queue("jobs")
	var futures []*client.Future
	var want []string
	large := strings.Repeat("y", 20<<10)
	for i := range n {
		payload := fmt.Sprint(i)
		if i%50 == 49 {
			payload = large + payload // which goes alone
		}
		want = append(want, payload)
		futures = append(futures, async(t, q, payload))
	}
	var got []string
	for len(got) < n {
		m := d.next(t)
		all := frames(t, m)
		if len(all) > 7 {
			t.Errorf("%d pushes in one message, allowed are 7", len(all))
		}
		for _, f := range all {
			got = append(got, f.payload)
		}
		d.answer(t, m, adds(t, m, nil))
	}
	if !slices.Equal(got, want) {
		t.Error("the pushes came in another order")
	}
	succeeds(t, futures...)
}
