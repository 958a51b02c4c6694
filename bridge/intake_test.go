package bridge_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/pqbridge/pqbridge/bridge"
)

// gated is a tracer that holds up whoever makes a span.
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

// A bridge that cannot keep up even with refusing rests, loses nothing of what
// had arrived, answers it in its order, and then goes on.
func TestRests(t *testing.T) {
	g := &gated{entered: make(chan struct{}, 1), open: make(chan struct{})}
	c := serve(t, bridge.Options{Tracer: g, Limits: bridge.Limits{Requests: 1 << 20, Bytes: 1 << 30}})
	// Malformed requests are refused by the callback itself, and it is held up.
	held := c.send("pq.jobs.push.x", "")
	select {
	case <-g.entered:
	case <-time.After(patience):
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
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	// Whether the server has passed it all on is seen by the one connection of
	// the bridge, which answers discovery from another callback.
	c.stats()
	close(g.open)
	c.refused(c.next(held), 400)
	var last int64
	for range n {
		ack := c.acknowledged(c.next(sub))
		if ack.Seq <= last {
			t.Fatalf("push %d was answered after %d", ack.Seq, last)
		}
		last = ack.Seq
	}
	families, err := c.registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "pq_rests_total" && f.Metric[0].GetCounter().GetValue() == 0 {
			t.Error("it did not rest")
		}
	}
	c.acknowledged(c.persistent("pq.jobs.push", "x"))
	if m := c.pop("pq.jobs.pop.min", ""); m.Data[0] != '0' {
		t.Errorf("popped %q first", m.Data[:10])
	}
}
