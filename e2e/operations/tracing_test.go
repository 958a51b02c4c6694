package operations_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// spans is an OpenTelemetry collector that keeps all spans.
type spans struct {
	mu    sync.Mutex
	names []string // of the services
	got   []*otlp.Span
}

func (s *spans) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request collector.ExportTraceServiceRequest
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "expected spans at /v1/traces", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				s.names = append(s.names, a.Value.GetStringValue())
			}
		}
		for _, scope := range resource.ScopeSpans {
			s.got = append(s.got, scope.Spans...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (s *spans) named(t *testing.T, name string) *otlp.Span {
	t.Helper()
	var found *otlp.Span
	for _, span := range s.got {
		if span.Name == name {
			if found != nil {
				t.Errorf("several spans named %s", name)
			}
			found = span
		}
	}
	if found == nil {
		t.Fatalf("no span named %s among %v", name, s.got)
	}
	return found
}

const (
	pusher = "11111111111111111111111111111111"
	popper = "22222222222222222222222222222222"
	parent = "3333333333333333"
)

// A push continues the trace of its sender, a pop that of its client, with a link to the
// push's trace. The item keeps the trace context of its push.
func TestTracing(t *testing.T) {
	t.Parallel()
	var s spans
	web := httptest.NewServer(&s)
	defer web.Close()
	p := testenv.Daemon(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+web.URL, "OTEL_SERVICE_NAME=queues")
	nc := p.Connect(t)
	from := func(trace string) string { return "00-" + trace + "-" + parent + "-01" }
	ask := func(subject, traceparent string) *nats.Msg {
		t.Helper()
		return pqd.Request(t, nc, subject, "", "traceparent", traceparent, "tracestate", "a=b")
	}
	ask("pq.jobs.push", from(pusher))
	item := ask("pq.jobs.pop.min", from(popper))
	if item.Header.Get("traceparent") != from(pusher) || item.Header.Get("tracestate") != "a=b" {
		t.Errorf("the item says %v", item.Header)
	}
	ask("pq.empty.pop.min", from(popper)) // nothing there: no span
	ask("pq.refused.push.x", from(pusher))
	nc.Close()
	p.Stop(t)

	s.mu.Lock()
	defer s.mu.Unlock()
	is := func(got []byte, want string) bool {
		raw, err := hex.DecodeString(want)
		return err == nil && bytes.Equal(got, raw)
	}
	if push := s.named(t, "push jobs"); !is(push.TraceId, pusher) || !is(push.ParentSpanId, parent) || push.EndTimeUnixNano < push.StartTimeUnixNano {
		t.Errorf("push: %v", push)
	}
	pop := s.named(t, "pop jobs")
	if !is(pop.TraceId, popper) || !is(pop.ParentSpanId, parent) || len(pop.Links) != 1 || !is(pop.Links[0].TraceId, pusher) || !is(pop.Links[0].SpanId, parent) {
		t.Errorf("pop: %v", pop)
	}
	if len(s.got) != 3 {
		t.Errorf("%d spans, expected 3: %v", len(s.got), s.got)
	}
	if len(s.names) == 0 || s.names[0] != "queues" {
		t.Errorf("services %v", s.names)
	}
}

// Without a collector tracing is off, and an unreachable collector is no failure.
func TestTracingIsOptional(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_TRACES_EXPORTER=none"} {
		p := testenv.Daemon(t, env)
		nc := p.Connect(t)
		pqd.Push(t, nc, "jobs", 1, "x")
		nc.Close()
		p.Stop(t)
	}
	code, _, stderr := testenv.Run(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"})
	if code != 2 || !strings.Contains(stderr, "OTEL_EXPORTER_OTLP_PROTOCOL") || !strings.Contains(stderr, "http/protobuf") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
