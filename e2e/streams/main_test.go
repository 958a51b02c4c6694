// Package streams_test feeds queues from streams.
package streams_test

import (
	"os"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

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

// connectAny connects with any server of a cluster, and again with another one.
func connectAny(t *testing.T, c *testenv.Cluster) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(c.URL(), nats.Timeout(testenv.Patience), nats.MaxReconnects(-1), nats.ReconnectWait(nats.DefaultReconnectWait/10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
