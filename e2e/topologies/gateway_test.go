package topologies_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/cases"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// freeAddress is one without a listener: gateways have to name each other's before they listen.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A pqd in one cluster serves the clients of the other one across the gateway. While it is cut, its own cluster goes on.
func TestGateways(t *testing.T) {
	t.Parallel()
	east, west := freeAddress(t), freeAddress(t)
	toEast, toWest := testenv.NewProxy(t, "nats://"+east), testenv.NewProxy(t, "nats://"+west)
	text := func(own, listen string) string {
		pairs := []string{
			"0.0.0.0:6222", "127.0.0.1:-1", "0.0.0.0:7222", listen,
			"east.example.com:7222", strings.TrimPrefix(toEast.URL(), "nats://"), "west.example.com:7222", strings.TrimPrefix(toWest.URL(), "nats://"),
		}
		if own == "west" {
			pairs = append(pairs, "east-1", "west-1", "name: east, listen: 127", "name: west, listen: 127",
				"advertise: \""+strings.TrimPrefix(toEast.URL(), "nats://"), "advertise: \""+strings.TrimPrefix(toWest.URL(), "nats://"))
		}
		return file(t, "gateway.conf", pairs...)
	}
	first, second := natsServer(t, text("east", east)), natsServer(t, text("west", west))
	testenv.Await(t, "the clusters are joined", func() bool { return first.NumOutboundGateways() == 1 && second.NumOutboundGateways() == 1 })
	p := beside(t, first)
	here := p.Connect(t, asPqd())
	there, err := nats.Connect(second.ClientURL(), asPqd())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	joined(t, there, "pq")
	cases.Run(t, cases.File, "go", "pq", "c", there, &cases.Go{NC: there})

	code, _, stderr := testenv.Run(t, environment("NATS_URL="+second.ClientURL(), "PQ_HTTP=127.0.0.1:0"))
	if code != 1 || !strings.Contains(stderr, "beside a gateway use another prefix") {
		t.Errorf("a pqd with another store ends with code %d and says %s", code, stderr)
	}

	pqd.Push(t, there, "long", 1, "a long task")
	leased := pqd.Lease(t, there, "long", "1h")
	for _, link := range []*testenv.Proxy{toEast, toWest} {
		link.Block(true)
	}
	testenv.Await(t, "the cluster without a pqd has no responders", func() bool {
		_, err := there.Request("pq._sys.info", nil, onItsWay())
		return errors.Is(err, nats.ErrNoResponders)
	})
	pqd.Push(t, here, "alone", 1, "while the gateway is cut")
	if got := pqd.Pop(t, here, "alone", "min"); got != "while the gateway is cut" {
		t.Errorf("popped %q", got)
	}
	for _, link := range []*testenv.Proxy{toEast, toWest} {
		link.Block(false)
	}
	joined(t, there, "pq")
	if m := pqd.Request(t, there, leased.Reply, "+ACK"); m.Header.Get("Status") != "" {
		t.Errorf("the lease is lost: %v", m.Header)
	}
	acrossCuts(t, there, "pq", toEast, toWest)
	p.Stop(t)
}
