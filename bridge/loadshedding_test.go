package bridge_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// gated is a tracer that blocks the start of each span.
type gated struct {
	noop.Tracer
	entered, open chan struct{}
}

func (g *gated) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	select {
	case g.entered <- struct{}{}:
	default:
	}
	<-g.open
	return g.Tracer.Start(ctx, name, o...)
}

// A bridge that gets more requests than it can refuse sheds load: it answers all requests
// that have arrived, in their order, and then serves again.
func TestLoadShedding(t *testing.T) {
	t.Parallel()
	g := &gated{entered: make(chan struct{}, 1), open: make(chan struct{})}
	c := serve(t, bridge.Options{Tracer: g, Limits: bridge.Limits{Requests: 1 << 20, Bytes: 1 << 30}})
	// Malformed requests are refused by the callback itself, which the tracer blocks.
	held := c.send("pq.jobs.push.x", "")
	select {
	case <-g.entered:
	case <-testenv.Late():
		t.Fatal("the callback was not reached")
	}
	const n, size = 800, 64 << 10 // 50 MiB
	sub := c.listen()
	for i := range n {
		body := append(strconv.AppendInt(nil, int64(i), 10), make([]byte, size)...)
		if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.push", Reply: sub.inbox, Data: body}); err != nil {
			t.Fatal(err)
		}
	}
	last := c.send("pq.jobs.push.y", "")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	// When the bridge answers a discovery request, which another callback does, the
	// server has delivered everything before it on the same connection.
	c.stats()
	g.open <- struct{}{} // and it is held up again by the last one
	c.refused(c.next(held), 400)
	registry := c.registry()
	ticker := time.NewTicker(20 * time.Millisecond) // to gather all metrics takes a while
	defer ticker.Stop()
	for metric(t, registry, "pq_load_shedding_total") == 0 { // it begins on its own
		<-ticker.C
	}
	events := c.hear("pq.*.event.error")
	for _, subject := range []string{"pq.jobs.push", "pq.jobs.push.5", "pq.jobs.push.a.b"} {
		if err := c.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	event := struct {
		Queue       string
		Code, Count int
	}{}
	for seen := 0; seen < 3; seen += event.Count {
		decode(t, c.next(events).Data, &event)
		if event.Queue != "jobs" || event.Code != 503 {
			t.Errorf("event %+v", event)
		}
	}
	if n := metric(t, registry, "pq_pushes_lost_total"); n != 3 {
		t.Errorf("%v pushes count as lost, expected 3", n)
	}
	if m := c.raw("pq.jobs.push", "x"); m.Header.Get("Nats-Service-Error-Code") != "503" || m.Header.Get("Status") != "503" {
		t.Errorf("a push while the bridge sheds load: %v", m.Header)
	}
	close(g.open)
	c.refused(c.next(last), 400)
	var seq int64
	for range n {
		ack := c.acknowledged(c.next(sub))
		if ack.Seq <= seq {
			t.Fatalf("push %d was answered after %d", ack.Seq, seq)
		}
		seq = ack.Seq
	}
	c.acknowledged(c.persistent("pq.jobs.push", "x"))
	if m := c.pop("pq.jobs.pop.min", ""); m.Data[0] != '0' {
		t.Errorf("popped %q first", m.Data[:10])
	}
}

// A bridge that hears of a backlog at its server unsubscribes until it has read it, and
// then serves again.
func TestBacklogAtServer(t *testing.T) {
	t.Parallel()
	backlog := make(chan struct{}, 1)
	c := serve(t, bridge.Options{Backlog: backlog})
	backlog <- struct{}{}
	registry := c.registry()
	testenv.Await(t, "the bridge sheds load", func() bool { return metric(t, registry, "pq_load_shedding_pushes_total") > 0 })
	c.acknowledged(c.persistent("pq.jobs.push", "x"))
}

// metric returns the value of a counter or a gauge without labels.
func metric(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].GetCounter().GetValue() + f.Metric[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
