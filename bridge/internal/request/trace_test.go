package request_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// parent is a trace context as a header has it.
func parent(trace string) string {
	return "00-" + strings.Repeat(trace, 32) + "-" + strings.Repeat("3", 16) + "-01"
}

// A push, a pop, and a settlement that also pops have a span, which continues the trace of
// the client and begins when the request arrived. It links to the traces of the items. A
// pop that found nothing has none.
func TestSpans(t *testing.T) {
	t.Parallel()
	push, pop := &request.Verb{Name: "push", Traced: true}, &request.Verb{Name: "pop", Traced: true}
	ack, info := &request.Verb{Name: "ack", Settles: true}, &request.Verb{Name: "info"}
	items := []fdbpq.Item{{Headers: []byte("X: y\r\nTraceparent: " + parent("2") + "\r\n")}, {}}
	re, _ := newResponder(t)
	for _, tc := range []struct {
		what  string
		verb  *request.Verb
		items []fdbpq.Item
		f     *failure.Failure
		span  string
	}{
		{"a push", push, nil, nil, "push jobs"},
		{"a refused push", push, nil, failure.Newf(429, "full"), "push jobs"},
		{"a pop", pop, items, nil, "pop jobs"},
		{"a pop of nothing", pop, nil, failure.Newf(404, "empty"), ""},
		{"a pop that waited in vain", pop, nil, failure.Newf(408, "over"), ""},
		{"a pop without a store", pop, nil, failure.Newf(503, "away"), "pop jobs"},
		{"a settlement", ack, nil, nil, ""},
		{"a settlement that pops", ack, items, nil, "pop jobs"},
		{"a look", info, nil, nil, ""},
	} {
		recorder := tracetest.NewSpanRecorder()
		re.Tracer = sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("")
		w := arrive(t, re, tc.verb, &nats.Msg{Header: nats.Header{"Traceparent": {parent("1")}}})
		w.items = tc.items
		re.Done(&w.Request, tc.f)
		spans := recorder.Ended()
		if tc.span == "" {
			if len(spans) > 0 {
				t.Errorf("%s: span %s", tc.what, spans[0].Name())
			}
			continue
		}
		if len(spans) != 1 {
			t.Fatalf("%s: %d spans", tc.what, len(spans))
		}
		s := spans[0]
		if s.Name() != tc.span || s.Parent().TraceID().String() != strings.Repeat("1", 32) || !s.StartTime().Equal(w.Arrived) {
			t.Errorf("%s: span %s of trace %s, since %s", tc.what, s.Name(), s.Parent().TraceID(), s.StartTime())
		}
		var links []string
		for _, link := range s.Links() {
			links = append(links, link.SpanContext.TraceID().String())
		}
		if linked := tc.items != nil; linked != slices.Equal(links, []string{strings.Repeat("2", 32)}) {
			t.Errorf("%s: links to %q", tc.what, links)
		}
		has := func(a attribute.KeyValue) bool { return slices.Contains(s.Attributes(), a) }
		if tc.items != nil && !has(attribute.Int("messaging.batch.message_count", len(tc.items))) {
			t.Errorf("%s: %v", tc.what, s.Attributes())
		}
		if status := s.Status(); tc.f == nil && status.Code != codes.Unset ||
			tc.f != nil && (status.Code != codes.Error || status.Description != tc.f.Text || !has(attribute.String("error.type", fmt.Sprint(tc.f.Code)))) {
			t.Errorf("%s: %v, %v", tc.what, status, s.Attributes())
		}
	}
}

// A request that waits keeps its trace context, however its headers are written, unless
// it is too long to be one.
func TestKept(t *testing.T) {
	t.Parallel()
	for _, size := range []int{512, 513} {
		state := strings.Repeat("x", size)
		kept := request.Kept(&nats.Msg{Subject: "s", Reply: "r", Data: []byte("x"), Header: nats.Header{
			"Traceparent": {parent("1")}, "tracestate": {state}, "X": {"y"},
		}})
		want := map[string][]string{"traceparent": {parent("1")}}
		if size == 512 {
			want["tracestate"] = []string{state}
		}
		if fmt.Sprint(map[string][]string(kept.Header)) != fmt.Sprint(want) || len(kept.Data) > 0 || kept.Subject != "s" || kept.Reply != "r" {
			t.Errorf("kept %+v", kept)
		}
	}
}

// The trace context of an item of a bundle is among the headers that it keeps.
func TestTraceOf(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]nats.Header{
		"":                   nil,
		"X: traceparent\r\n": nil,
		"X: y\r\nTraceparent: " + parent("1") + "\r\ntracestate: a=b\r\n": {"traceparent": {parent("1")}, "tracestate": {"a=b"}},
	} {
		if got := request.TraceOf([]byte(lines)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, expected %v", lines, got, want)
		}
	}
}
