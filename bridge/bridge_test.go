package bridge_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

func decode(t testing.TB, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
}

// stats asks for the statistics of the one bridge.
func (c *client) stats() map[string]*micro.EndpointStats {
	c.Helper()
	stats := object[micro.Stats](c, "$SRV.STATS.pq", "")
	endpoints := make(map[string]*micro.EndpointStats)
	for _, e := range stats.Endpoints {
		endpoints[e.Name] = e
	}
	return endpoints
}

// shownStats are the numbers of a queue in STATS.
type shownStats struct {
	Ready, Leased, Delayed, Waiting int
	Oldest                          float64
}

// queueStats are the queues in STATS. A busy store may show none in time.
func (c *client) queueStats() map[string]shownStats {
	c.Helper()
	var data struct{ Queues map[string]shownStats }
	if text := c.stats()["info"].Data; len(text) > 0 {
		decode(c, text, &data)
	}
	return data.Queues
}

// accepted checks that a settlement took effect.
func (c *client) accepted(m *nats.Msg) {
	c.Helper()
	if len(m.Data) > 0 || m.Header.Get("Status") != "" || m.Header.Get("Nats-Service-Error") != "" {
		c.Fatalf("settlement: %q, %v", m.Data, m.Header)
	}
}

func (c *client) drain(b *bridge.Bridge) {
	c.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience())
	defer cancel()
	if err := b.Drain(ctx); err != nil {
		c.Fatal(err)
	}
}

// registry returns the bridge's metrics.
func (c *client) registry() *prometheus.Registry {
	c.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c.env.Bridge.Collector()); err != nil {
		c.Fatal(err)
	}
	return registry
}
