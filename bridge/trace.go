package bridge

import (
	"context"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pqbridge/pqbridge/bridge/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// Trace context travels with an item like every other header. The bridge adds spans
// of its own: the span of a push continues the trace of the producer, the span of a
// pop the trace of the consumer, with a link to the trace of each item's push. Spans
// are made after the answer, so without a tracer a request costs one comparison more.

var traceContext = propagation.TraceContext{}

// tracer makes spans.
type tracer struct{ trace.Tracer }

// traced makes the span of a request that was answered.
func (t tracer) traced(r *request, f *failure.Failure) {
	var links []trace.Link
	verb, items := r.verb, r.work.items()
	if verb == verbAck && len(items) > 0 {
		verb = verbPop // of a +NXT
	}
	switch verb {
	case verbPush:
	case verbPop:
		if f != nil && (f.Code == 404 || f.Code == 408) {
			return // a worker that polls an empty queue
		}
		links = linksTo(items)
	default:
		return
	}
	ctx := traceContext.Extract(context.Background(), messageCarrier(r.msg.Header))
	queue := r.subject.Queue
	_, span := t.Start(ctx, strings.TrimSpace(verb.name+" "+queue), // a malformed subject names no queue
		trace.WithTimestamp(r.arrived), trace.WithSpanKind(trace.SpanKindServer), trace.WithLinks(links...),
		trace.WithAttributes(
			attribute.String("messaging.system", "pqbridge"),
			attribute.String("messaging.operation.name", verb.name),
			attribute.String("messaging.destination.name", queue),
		))
	defer span.End(trace.WithTimestamp(time.Now()))
	if !span.IsRecording() {
		return
	}
	if n := len(items); n > 0 {
		span.SetAttributes(attribute.Int("messaging.batch.message_count", n))
	}
	if f != nil {
		span.SetAttributes(attribute.String("error.type", strconv.Itoa(f.Code)))
		span.SetStatus(otelcodes.Error, f.Text)
	}
}

// linksTo are links to the traces that items were pushed in.
func linksTo(items []fdbpq.Item) (links []trace.Link) {
	for i := range items {
		ctx := traceContext.Extract(context.Background(), itemCarrier(items[i].Headers))
		if from := trace.SpanContextFromContext(ctx); from.IsValid() {
			links = append(links, trace.Link{SpanContext: from, Attributes: []attribute.KeyValue{
				attribute.String("messaging.message.id", items[i].ID.String()),
			}})
		}
	}
	return links
}

// messageCarrier finds trace context in the headers of a message, also when a
// client wrote their names as HTTP libraries do.
type messageCarrier nats.Header

func (c messageCarrier) Get(key string) string {
	if values := c[key]; len(values) > 0 {
		return values[0]
	}
	if values := c[textproto.CanonicalMIMEHeaderKey(key)]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func (messageCarrier) Set(string, string) {}
func (messageCarrier) Keys() []string     { return nil }

// itemCarrier finds trace context in the headers that are kept with an item.
type itemCarrier []byte

func (c itemCarrier) Get(key string) string {
	for line := range strings.SplitSeq(string(c), "\r\n") {
		if name, value, _ := strings.Cut(line, ": "); strings.EqualFold(name, key) {
			return value
		}
	}
	return ""
}

func (itemCarrier) Set(string, string) {}
func (itemCarrier) Keys() []string     { return nil }
