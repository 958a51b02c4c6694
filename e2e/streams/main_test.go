// Package streams_test feeds queues from streams.
package streams_test

import (
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// jetStream is a NATS server with streams on disk.
func jetStream(t *testing.T) *testenv.Server {
	t.Helper()
	dir := t.TempDir()
	return testenv.NATS(t, func(o *server.Options) {
		o.JetStream, o.StoreDir, o.JetStreamMaxStore = true, dir, 4<<30
	})
}

// connect connects with any server of a cluster, and again with another one, however often they end.
func connect(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.Timeout(testenv.Patience()), nats.MaxReconnects(-1), nats.ReconnectWait(nats.DefaultReconnectWait/20))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// jobs is the queue that is fed.
func jobs(t *testing.T, url string) *client.Queue {
	t.Helper()
	c, err := client.New(connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	return c.Queue("jobs")
}
