package pushes

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// The items of a bundle are not read where messages are read one after another, for all queues, nor before the gate has
// counted them.
func TestBundleIsReadByItsLine(t *testing.T) {
	t.Parallel()
	w, err := codec.New("pq", nil, func() int64 { return protocol.MaxPayload })
	if err != nil {
		t.Fatal(err)
	}
	w.Limit.Refresh()
	p := Push(subjects.Push).(*push)
	p.Subject = subjects.Subject{Queue: "jobs", Verb: subjects.Push}
	p.Msg = &nats.Msg{Header: nats.Header{protocol.HeaderBundle: {"1000"}}, Data: []byte("none of a thousand items")}
	if f := p.Read(w); f != nil || p.Count() != 1000 {
		t.Fatalf("it is %d pushes, refused for %v", p.Count(), f)
	}
	if _, f := p.sent.Items(); f == nil || f.Code != 400 {
		t.Errorf("its items are refused for %v", f)
	}
}

// All pushes to a queue that nobody has made are refused for the same reason, so none of them is tried alone.
func TestErrorsOfAllPushes(t *testing.T) {
	t.Parallel()
	l := New(&desk.Desk{})
	for err, want := range map[error]bool{
		kv.ErrUnavailable: true, fdbpq.ErrNoQueue: true, fmt.Errorf("push: %w", fdbpq.ErrNoQueue): true, kv.ErrTooLarge: false, fdbpq.ErrContent: false,
	} {
		if got := l.Common(err); got != want {
			t.Errorf("%v concerns all pushes: %t", err, got)
		}
	}
}

// An item that is pushed on its own counts with its headers, and belongs to the trace that they name, if there are traces.
func TestItemOfItsOwn(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	headers := "traceparent: " + parent + "\r\n"
	for name, re := range map[string]*request.Responder{
		"no traces": {},
		"traces":    {Tracer: noop.NewTracerProvider().Tracer("")},
	} {
		message := &push{Request: request.Request{Msg: new(nats.Msg)}}
		items := []fdbpq.NewItem{{Headers: []byte(headers), Payload: []byte("x")}, {Payload: []byte("x")}}
		b := &eachPush{message: message, items: items, results: make([]codec.PushResult, len(items)), Responder: re}
		all := b.begin(nil)
		if len(all) != 2 {
			t.Fatalf("%s: %d pushes of 2 items", name, len(all))
		}
		first, second := all[0].Head(), all[1].Head()
		if more := first.Size() - second.Size(); more != len(headers) {
			t.Errorf("%s: headers of %d bytes count as %d", name, len(headers), more)
		}
		want := ""
		if re.Tracer != nil {
			want = parent
		}
		if got := first.Msg.Header.Get("traceparent"); got != want || len(second.Msg.Header) > 0 {
			t.Errorf("%s: the items belong to the traces %q and %v", name, got, second.Msg.Header)
		}
	}
}

// A bundle is refused as a whole only if all its items are, for one reason that is not about an item.
func TestBundleRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	refused := func(code int, reason protocol.Reason) codec.PushResult {
		return codec.PushResult{Failure: &failure.Failure{Code: code, Reason: reason}}
	}
	away, full := refused(503, ""), refused(429, protocol.ReasonStoreFull)
	for name, tc := range map[string]struct {
		results []codec.PushResult
		whole   bool
	}{
		"the store is away":              {[]codec.PushResult{away, away}, true},
		"the store is full":              {[]codec.PushResult{full, full}, true},
		"the result is unknown":          {[]codec.PushResult{refused(504, ""), refused(504, "")}, true},
		"the first one was pushed":       {[]codec.PushResult{{}, away}, false},
		"the last one was pushed":        {[]codec.PushResult{away, {}}, false},
		"different codes":                {[]codec.PushResult{away, refused(504, "")}, false},
		"different reasons":              {[]codec.PushResult{full, refused(429, protocol.ReasonQuotaItems)}, false},
		"a reason that is about an item": {[]codec.PushResult{refused(413, ""), refused(413, "")}, false},
	} {
		b := &eachPush{results: tc.results}
		if f := b.common(); (f != nil) != tc.whole {
			t.Errorf("%s: the bundle is refused for %v", name, f)
		}
	}
}
