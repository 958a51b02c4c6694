package client_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

type order struct {
	Amount int `json:"amount"`
}

type receipt struct {
	Total float64 `json:"total"`
}

// works runs a function on the items of a queue until the test ends. The channel has the errors that it reports.
func works[In, Out any](t *testing.T, q *client.Queue, work func(context.Context, In) (Out, error), o client.ConsumeOptions) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reported, ended := make(chan error, 1000), make(chan error, 1)
	o.OnError = func(item *client.Item, err error) {
		if item != nil { // otherwise the queue does not exist yet
			reported <- err
		}
	}
	go func() { ended <- client.Work(ctx, q, work, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return reported
}

// returns has a function return what it gets, and checks how that travels both ways, and what arrives.
func returns[T any](t *testing.T, w *world, name string, value T, travels string, same func(a, b T) bool) {
	t.Helper()
	q := w.client.Queue(name)
	works(t, q, func(ctx context.Context, in T) (T, error) {
		if got := string(client.ItemOf(ctx).Payload); got != travels {
			t.Errorf("%s: the payload is %q, expected %q", name, got, travels)
		}
		return in, nil
	}, client.ConsumeOptions{Workers: 1})
	got, err := client.Call[T](t.Context(), q, value)
	if err != nil || !same(got, value) {
		t.Errorf("%s: %v, %v: expected %v", name, got, err, value)
	}
	body, err := client.Call[[]byte](t.Context(), q, value)
	if err != nil || string(body) != travels {
		t.Errorf("%s: the result is %q, %v: expected %q", name, body, err, travels)
	}
}

func is[T comparable](a, b T) bool { return a == b }

// Texts and bytes travel as they are, all other values as JSON, and nothing as no bytes.
func TestValuesTravel(t *testing.T) {
	t.Parallel()
	w := start(t)
	returns(t, w, "text", "zu spät\n\x00\xff", "zu spät\n\x00\xff", is[string])
	returns(t, w, "empty", "", "", is[string])
	returns(t, w, "bytes", []byte{0, 255, '\n'}, "\x00\xff\n", bytes.Equal)
	returns(t, w, "struct", order{7}, `{"amount":7}`, is[order])
	returns(t, w, "number", 7, "7", is[int])
	returns(t, w, "zero", 0, "0", is[int])
	returns(t, w, "false", false, "false", is[bool])
	returns(t, w, "pointer", &order{7}, `{"amount":7}`, func(a, b *order) bool { return *a == *b })
	returns(t, w, "none", nil, "", func(a, _ *order) bool { return a == nil })
	returns(t, w, "nothing", struct{}{}, "", is[struct{}])
	returns(t, w, "list", []string{}, "[]", func(a, _ []string) bool { return a != nil && len(a) == 0 })
	returns[any](t, w, "any", 7.0, "7", is[any])
	if item := client.ItemOf(t.Context()); item != nil {
		t.Errorf("a context without an item has %+v", item)
	}
}

// What is typed both ways arrives, under several workers, and settlements that go together.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	w := start(t)
	works(t, w.queue, func(_ context.Context, in order) (receipt, error) {
		if in.Amount%3 == 0 {
			return receipt{}, nil // beside others, and with a value all the same
		}
		return receipt{float64(in.Amount) * 1.5}, nil
	}, client.ConsumeOptions{Workers: 8})
	for i := range 30 {
		w.push(t, `{"amount":1}`) // which asks for nothing
		t.Run("", func(t *testing.T) {
			t.Parallel()
			want := receipt{float64(i) * 1.5}
			if i%3 == 0 {
				want = receipt{}
			}
			got, err := client.Call[receipt](t.Context(), w.queue, order{i}, client.Priority(int64(i%3)))
			if err != nil || got != want {
				t.Errorf("%d: %+v, %v", i, got, err)
			}
		})
	}
}

// Work that cannot end with a value for its caller is done once, and the caller hears why.
func TestCallsThatFail(t *testing.T) {
	t.Parallel()
	b := testenv.BridgeOn(t, testenv.NATS(t, func(o *server.Options) { o.MaxPayload = 64 << 10 }), bridge.Options{})
	for name, tc := range map[string]struct {
		in    string
		work  func(order) (any, error)
		cause string
	}{
		"payload":        {`{"amount":"many"}`, nil, "the payload is no client_test.order: json: cannot unmarshal string"},
		"empty payload":  {``, nil, "the payload is no client_test.order: unexpected end of JSON input"},
		"not JSON":       {`{"amount":1} {}`, nil, "the payload is no client_test.order: invalid character '{' after"},
		"no JSON":        {`{}`, func(order) (any, error) { return math.NaN(), nil }, "the returned value cannot be kept: json: unsupported value: NaN"},
		"a channel":      {`{}`, func(order) (any, error) { return make(chan int), nil }, "the returned value cannot be kept: json: unsupported type: chan int"},
		"for the server": {`{}`, func(order) (any, error) { return strings.Repeat("x", 65<<10), nil }, "the returned value is too large: ack"},
		"for the bridge": {`{}`, func(order) (any, error) { return strings.Repeat("x", 64<<10-500), nil }, "the returned value is too large: ack"},
		"its own error":  {`{}`, func(order) (any, error) { return 1, client.GiveUp(errors.New("smtp 550")) }, "smtp 550"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, b.NATS.Connect(t))
			q := c.Queue(strings.ReplaceAll(name, " ", "-"))
			times := 0
			reported := works(t, q, func(_ context.Context, in order) (any, error) {
				times++
				return tc.work(in)
			}, client.ConsumeOptions{})
			_, err := client.Call[any](t.Context(), q, tc.in)
			var e *client.CallError
			if !errors.As(err, &e) || e.Result.Outcome != protocol.FinishDead || !strings.HasPrefix(e.Result.Cause, tc.cause) || e.Result.Deliveries != 1 {
				t.Fatalf("%v: expected %q", err, tc.cause)
			}
			if want := "call " + q.Name() + ": item " + e.ID + " is dead: " + e.Result.Cause; err.Error() != want {
				t.Errorf("the error is %q, expected %q", err, want)
			}
			if got := arrives(t, "a report", reported).Error(); !strings.HasPrefix(got, tc.cause) && !strings.HasSuffix(got, "(413)") {
				t.Errorf("reported: %s", got)
			}
			if times > 1 || times == 1 && tc.work == nil {
				t.Errorf("the work was done %d times", times)
			}
		})
	}
}

// What a caller gets of items that end otherwise, or without a value that it can read.
func TestCallsWithoutAValue(t *testing.T) {
	t.Parallel()
	w := start(t)
	for name, tc := range map[string]struct {
		ends func(*client.Item) error
		says string
	}{
		"acked":     {func(i *client.Item) error { return i.Ack(t.Context()) }, "is done, and its value is no client_test.receipt: unexpected end of JSON input"},
		"another":   {func(i *client.Item) error { return i.AckWith(t.Context(), []byte("ok")) }, "is done, and its value is no client_test.receipt: invalid character 'o' looking"},
		"too much":  {func(i *client.Item) error { return i.AckWith(t.Context(), make([]byte, 4<<10)) }, "is done, and its queue had no room for the value"},
		"removed":   {func(i *client.Item) error { return w.client.Queue(i.Queue).Remove(t.Context(), i.ID) }, "is removed"},
		"hand over": {func(i *client.Item) error { _, err := i.HandOver(t.Context(), w.queue, nil); return err }, "went on to jobs"},
	} {
		q := w.client.Queue(strings.ReplaceAll(name, " ", "-"))
		if _, err := q.Configure(t.Context(), client.ConfigChange{ResultBytes: new(int64(2 << 10)), HandOver: new("jobs")}); err != nil {
			t.Fatal(err)
		}
		works(t, q, func(ctx context.Context, _ order) (receipt, error) {
			err := tc.ends(client.ItemOf(ctx))
			return receipt{3}, err // which comes too late
		}, client.ConsumeOptions{})
		got, err := client.Call[receipt](t.Context(), q, order{1})
		var e *client.CallError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "item "+e.ID+" "+tc.says) || got != (receipt{}) {
			t.Errorf("%s: %+v, %v: expected %q", name, got, err, tc.says)
		}
	}
	_, err := client.Call[receipt](t.Context(), w.queue, make(chan int))
	if err == nil || !strings.Contains(err.Error(), "call jobs: json: unsupported type") {
		t.Errorf("a payload without JSON: %v", err)
	}
	_, err = client.Call[receipt](t.Context(), w.queue, order{}, client.ResultTTL(-time.Second))
	fails(t, err, err, 400, "")
}

// Who asks for nothing gets nothing: the value is not even written, and the acknowledgement is that of a handler.
func TestValuesThatNobodyAsksFor(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	works(t, d.client(t).Queue("jobs"), func(context.Context, []byte) (any, error) { return make(chan int), nil }, client.ConsumeOptions{})
	for range 2 {
		pop := d.next(t)
		d.answer(t, pop, leasedItem("a", "1", "a"))
		settled := d.next(t)
		for ; settled.Subject != "pq.jobs.ack.c.a"; settled = d.next(t) {
			d.answer(t, settled, failure("404", ""))
		}
		if string(settled.Data) != "+ACK" || len(settled.Header) > 0 {
			t.Errorf("the acknowledgement is %q, %v", settled.Data, settled.Header)
		}
		d.answer(t, settled, emptyAnswer())
	}
}

// A value of work that ends while the program stops is kept; one whose lease is lost is not.
func TestLateValues(t *testing.T) {
	t.Parallel()
	w := start(t)
	lost := w.push(t, "one", client.ResultTTL(time.Hour))
	ctx, stop := context.WithCancel(t.Context())
	began, goOn, ended := make(chan *client.Item, 1), make(chan bool), make(chan error, 1)
	reported := make(chan error, 10)
	work := func(ctx context.Context, in string) (string, error) {
		began <- client.ItemOf(ctx)
		<-goOn
		return in + " is done", nil
	}
	go func() {
		ended <- client.Work(ctx, w.queue, work, client.ConsumeOptions{OnError: func(_ *client.Item, err error) { reported <- err }})
	}()
	arrives(t, "an item", began)
	if err := w.queue.Revoke(t.Context(), lost.ID, client.RevokeOptions{Delay: new(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	goOn <- true
	if err := arrives(t, "a report", reported); !errors.Is(err, client.ErrLeaseLost) {
		t.Errorf("reported: %v, expected a lost lease", err)
	}
	_, err := w.queue.Result(t.Context(), lost.ID)
	goesOn(t, err, lost.ID, 404, client.ReasonPending)

	last := w.push(t, "two", client.ResultTTL(time.Hour))
	arrives(t, "an item", began)
	stop()
	goOn <- true
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if r, err := w.queue.Result(t.Context(), last.ID); err != nil || string(r.Body) != "two is done" {
		t.Errorf("the result is %+v, %v", r, err)
	}
}
