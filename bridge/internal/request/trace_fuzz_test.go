package request

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// A trace context in the headers of an item or of a message is read or passed over,
// whatever they hold.
func FuzzTraceContext(f *testing.F) {
	f.Add([]byte("traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"), "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add([]byte("\r\n: \r\n"), "tracestate", "a=b")
	f.Fuzz(func(t *testing.T, block []byte, key, value string) {
		for _, link := range linksTo([]fdbpq.Item{{Headers: block}}) {
			if !link.SpanContext.IsValid() {
				t.Errorf("%q: a link to nowhere", block)
			}
		}
		m := &nats.Msg{Subject: "pq.jobs.pop.min", Reply: "inbox", Header: nats.Header{key: {value}}, Data: block}
		small := Kept(m)
		if len(small.Data) > 0 || small.Subject != m.Subject || small.Reply != m.Reply {
			t.Errorf("kept %+v of %+v", small, m)
		}
		if got, want := spanOf(small), spanOf(m); len(value) <= maxTraceField && !got.Equal(want) {
			t.Errorf("kept %v of %v", small.Header, m.Header)
		}
	})
}

func spanOf(m *nats.Msg) trace.SpanContext {
	return trace.SpanContextFromContext(traceContext.Extract(context.Background(), messageCarrier(m.Header)))
}
