package pushes

import (
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

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
