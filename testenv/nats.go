package testenv

import (
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/interest"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// Most is longer than any wait of a test. It is for options that mean never.
const Most = patience.Most

// Compile is how long a compiler may take.
const Compile = patience.Compile

// Patience is how long a test waits for an event that must happen, if the wait begins now.
func Patience() time.Duration { return patience.Long() }

// Late returns a channel that gets a value when a wait that begins now is over. If the machine becomes busy
// meanwhile, that takes longer than Patience was at the beginning.
func Late() <-chan time.Time { return patience.Late() }

// BeginWait begins a wait for a test that polls.
func BeginWait() *patience.Wait { return patience.Begin() }

// Times is how long something may take here that takes d at most on a machine that runs the tests alone.
func Times(d time.Duration) time.Duration { return patience.Times(d) }

// Attempt is how long a test waits for the answer to a request that it repeats.
func Attempt() time.Duration { return patience.Attempt() }

// Slow is a variable for tests in other languages: how much longer things take now than on a machine that
// runs the tests alone. They multiply their own times by it.
func Slow() string { return fmt.Sprintf("PQ_TEST_SLOW=%.2f", patience.Factor()) }

// Server is a NATS server inside the test process.
type Server struct {
	options *server.Options
	running atomic.Pointer[server.Server] // replaced by a restart, also for clients that connect meanwhile

	interest atomic.Pointer[interest.Func] // of running; nil: with gateways
}

// NATS starts a NATS server on a port that is free. Each change may alter its
// options first: add users, a websocket, limits.
func NATS(t testing.TB, changes ...func(*server.Options)) *Server {
	t.Helper()
	options := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		// A slow reader here has no processor time.
		WriteDeadline: Most,
	}
	for _, change := range changes {
		change(options)
	}
	s := &Server{options: options}
	s.start(t)
	t.Cleanup(s.Shutdown)
	return s
}

// Websocket lets clients connect over a websocket too; see [Server.WebsocketURL].
func Websocket(options *server.Options) {
	options.Websocket = server.WebsocketOpts{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoTLS: true}
}

// AccountLimit gives the server JetStream with files in a directory, and its clients an account whose files may
// have this many bytes, such as 8M.
func AccountLimit(t testing.TB, limit string) func(*server.Options) {
	t.Helper()
	// An account gets JetStream from a configuration only.
	var parsed server.Options
	if err := parsed.ProcessConfigString("accounts { A { jetstream { max_file: " + limit + " }, users [{user: u, password: p}] } }, no_auth_user: u"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return func(o *server.Options) {
		o.Accounts, o.Users, o.NoAuthUser = parsed.Accounts, parsed.Users, parsed.NoAuthUser
		o.JetStream, o.StoreDir, o.JetStreamMaxStore = true, dir, 4<<30
	}
}

func (s *Server) start(t testing.TB) {
	t.Helper()
	srv, err := server.NewServer(s.options.Clone())
	if err != nil {
		t.Fatalf("start NATS server: %v", err)
	}
	srv.Start()
	if !srv.ReadyForConnections(Patience()) {
		srv.Shutdown()
		t.Fatalf("the NATS server was not ready after %s", Patience())
	}
	s.running.Store(srv)
	of, err := interest.Of(srv)
	if err != nil {
		t.Fatal(err)
	}
	if of != nil {
		s.interest.Store(&of)
	}
	// Remembered for Restart, so that clients find the server again.
	s.options.Port = srv.Addr().(*net.TCPAddr).Port
}

// URL is the address for clients.
func (s *Server) URL() string { return s.Server().ClientURL() }

// WebsocketURL is the address for clients that use a websocket.
func (s *Server) WebsocketURL() string { return s.Server().WebsocketURL() }

// Server is the server itself, for looking at its connections and accounts.
func (s *Server) Server() *server.Server { return s.running.Load() }

// Interest reports whether subjects have subscribers, as pqd's own server does; also after a restart.
func (s *Server) Interest(client uint64, subjects []string) (gone []string, known bool) {
	if of := s.interest.Load(); of != nil {
		return (*of)(client, subjects)
	}
	return nil, false
}

// Connect returns a connection that is closed when the test ends.
func (s *Server) Connect(t testing.TB, options ...nats.Option) *nats.Conn {
	t.Helper()
	return connect(t, s.URL(), options...)
}

// Restart takes the server down and starts it again at the same address, with
// its options changed. The system gives free ports to outgoing connections: the server starts when no other
// program has its port.
func (s *Server) Restart(t testing.TB, changes ...func(*server.Options)) {
	t.Helper()
	s.Shutdown()
	address := net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
	Await(t, "the port of the server is free", func() bool {
		l, err := net.Listen("tcp", address)
		return err == nil && l.Close() == nil
	})
	for _, change := range changes {
		change(s.options)
	}
	s.start(t)
}

// Shutdown takes the server down. It may be called repeatedly.
func (s *Server) Shutdown() {
	s.Server().Shutdown()
	s.Server().WaitForShutdown()
}

func connect(t testing.TB, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append([]nats.Option{nats.Timeout(Patience())}, options...)...)
	if err != nil {
		t.Fatalf("connect to %s: %v", url, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

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
