package request

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

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// Trace context travels with an item like every other header. The bridge adds spans
// of its own: the span of a push continues the trace of the producer, the span of a
// pop the trace of the consumer, with a link to the trace of each item's push. Spans
// are made after the answer, so without a tracer a request costs one comparison more.

var traceContext = propagation.TraceContext{}

// nextSpan is the name of the span of a settlement that also pops.
const nextSpan = "pop"

// traced makes the span of a request that was answered.
func traced(t trace.Tracer, r *Request, f *failure.Failure) {
	name, items := r.Verb.Name, r.Work.Items()
	if r.Verb.Settles && len(items) > 0 {
		name = nextSpan
	} else if !r.Verb.Traced {
		return
	}
	if f != nil && (f.Code == 404 || f.Code == 408) {
		return // a worker that polls an empty queue
	}
	links := linksTo(items)
	ctx := traceContext.Extract(context.Background(), messageCarrier(r.Msg.Header))
	queue := r.Subject.Queue
	_, span := t.Start(ctx, strings.TrimSpace(name+" "+queue), // a malformed subject names no queue
		trace.WithTimestamp(r.Arrived), trace.WithSpanKind(trace.SpanKindServer), trace.WithLinks(links...),
		trace.WithAttributes(
			attribute.String("messaging.system", "pqbridge"),
			attribute.String("messaging.operation.name", name),
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

// linksTo are links to the traces in which items were pushed.
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

// Kept is the part of its message that a request needs while it waits. The message may be
// as large as the server permits, and its headers share one piece of memory, so Kept copies those that it needs.
func Kept(m *nats.Msg) *nats.Msg {
	small := &nats.Msg{Subject: m.Subject, Reply: m.Reply}
	for _, key := range traceContext.Fields() {
		if value := messageCarrier(m.Header).Get(key); value != "" && len(value) <= maxTraceField {
			if small.Header == nil {
				small.Header = make(nats.Header)
			}
			small.Header[key] = []string{strings.Clone(value)}
		}
	}
	return small
}

// TraceOf is the trace context in headers that are kept with an item, nil if there is none.
func TraceOf(headers []byte) (found nats.Header) {
	for _, key := range traceContext.Fields() {
		if value := itemCarrier(headers).Get(key); value != "" {
			if found == nil {
				found = make(nats.Header)
			}
			found[key] = []string{value}
		}
	}
	return found
}

// maxTraceField is the length of a tracestate that must be passed on.
const maxTraceField = 512
