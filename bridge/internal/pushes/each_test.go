package pushes

import (
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
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
