package testenv

import (
	"net"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Virtual is a NATS server without sockets, for tests in virtual time: the clock of a synctest bubble stands still
// while one of its goroutines waits for a socket.
//
// In a bubble, connections must neither flush nor reconnect nor send requests with a time-out: nats.go would use
// their timers again on other connections, and a timer of a bubble must not leave it.
type Virtual struct{ server *server.Server }

// VirtualNATS starts such a server. In a bubble it is part of the bubble.
func VirtualNATS(t testing.TB) *Virtual {
	t.Helper()
	srv, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, WriteDeadline: Most})
	if err != nil {
		t.Fatalf("start NATS server: %v", err)
	}
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	return &Virtual{srv}
}

// InProcessConn implements nats.InProcessConnProvider.
func (v *Virtual) InProcessConn() (net.Conn, error) { return v.server.InProcessConn() }

// Connect returns a connection that is closed when the test ends.
func (v *Virtual) Connect(t testing.TB, options ...nats.Option) *nats.Conn {
	t.Helper()
	return connect(t, "", append(options, nats.InProcessServer(v))...)
}
