package broker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/testenv"
)

func TestExcess(t *testing.T) {
	t.Parallel()
	const own, budget = 1, 100
	hanging := func(id uint64, pending int64) backlog {
		return backlog{id: id, pending: pending, acknowledged: 1, stuck: stuckLooks}
	}
	for _, test := range []struct {
		name   string
		all    []backlog
		closed []uint64
	}{
		{"as much as the budget", []backlog{hanging(2, 60), hanging(3, 40)}, nil},
		{"the most bytes first, and no more than needed", []backlog{hanging(2, 30), hanging(3, 50), hanging(4, 40)}, []uint64{3}},
		{"as many as needed", []backlog{hanging(2, 90), hanging(3, 95), hanging(4, 85)}, []uint64{3, 2}},
		{"none that makes progress", []backlog{{id: 2, pending: 500}, {id: 3, pending: 400, acknowledged: 1, stuck: stuckLooks - 1}, hanging(4, 10)}, []uint64{4}},
		{"later where what arrived is unknown", []backlog{{id: 2, pending: 500, stuck: blindLooks - 1}, {id: 3, pending: 400, stuck: blindLooks}}, []uint64{3}},
		{"one that receives, and has too much to receive", []backlog{{id: 2, pending: unreadEach}, {id: 3, pending: unreadEach + 1}}, []uint64{3}},
		{"never the own one, whatever it has to receive", []backlog{{id: own, pending: 2 * unreadEach}}, nil},
		{"never the own one", []backlog{{id: own, pending: 500, acknowledged: 1, stuck: 2 * blindLooks}, hanging(2, 10)}, []uint64{2}},
	} {
		var closed []uint64
		for _, b := range excess(test.all, map[uint64]bool{own: true}, budget) {
			closed = append(closed, b.id)
		}
		if diff := cmp.Diff(test.closed, closed); diff != "" {
			t.Errorf("%s: closed (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	before := backlog{pending: 100, sent: 1000, acknowledged: 500, stuck: 2}
	for _, test := range []struct {
		name  string
		now   backlog
		known bool
		stuck int
	}{
		{"not seen before", backlog{pending: 100, sent: 1000, acknowledged: 500}, false, 0},
		{"all as before", backlog{pending: 100, sent: 1000, acknowledged: 500}, true, 3},
		{"more is pending", backlog{pending: 150, sent: 990, acknowledged: 500}, true, 3},
		{"less is pending", backlog{pending: 99, sent: 1000, acknowledged: 500}, true, 0},
		{"more is pending, and more was sent", backlog{pending: 150, sent: 1001, acknowledged: 500}, true, 0},
		{"more arrived", backlog{pending: 150, sent: 1000, acknowledged: 501}, true, 0},
	} {
		if got := test.now.follow(before, test.known).stuck; got != test.stuck {
			t.Errorf("%s: stuck for %d looks, expected %d", test.name, got, test.stuck)
		}
	}
}

func TestUnreadBudget(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]int64{math.MaxInt64: 256 << 20, 1 << 30: 256 << 20, 512 << 20: 128 << 20} {
		if got := unreadBudget(limit); got != want {
			t.Errorf("GOMEMLIMIT=%d: %d, expected %d", limit, got, want)
		}
	}
}

// The clients of these tests leave this much unread, more than sockets buffer.
const (
	unreadSize     = 512 << 10
	unreadMessages = 48
	testBudget     = 4 << 20
)

// patientServer is an embedded server that does not cut off clients by itself.
func patientServer(t *testing.T) *server.Server {
	t.Helper()
	e, err := readServerOptions(settings.Settings{Listen: settings.Address{Host: "127.0.0.1", Port: server.RANDOM_PORT}})
	if err != nil {
		t.Fatal(err)
	}
	e.Options.WriteDeadline, e.Options.PingInterval = time.Hour, time.Hour
	srv, err := e.start(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	return srv
}

// silent is a client that sends and does not read.
type silent struct {
	net.Conn
	name string
}

func newSilent(t *testing.T, srv *server.Server, name, commands string) silent {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(srv.ClientURL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"protocol\":1,\"headers\":true,\"no_responders\":true,\"name\":%q}\r\nSUB _INBOX.%s 1\r\n%s", name, name, commands); err != nil {
		t.Fatal(err)
	}
	return silent{conn, name}
}

// connection is the server's entry for the client; nil if there is none.
func (c silent) connection(t *testing.T, srv *server.Server) *server.ConnInfo {
	t.Helper()
	list, err := srv.Connz(&server.ConnzOptions{Limit: math.MaxInt32})
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range list.Conns {
		if info.Name == c.name {
			return info
		}
	}
	return nil
}

// until repeats step until it returns true.
func until(t *testing.T, what string, step func() bool) {
	t.Helper()
	for end := testenv.BeginWait(); !step(); {
		if end.Over() {
			t.Fatalf("not after %s: %s", testenv.Patience(), what)
		}
	}
}

// The connection of a client that does not read is closed and its memory freed, while pqd
// serves a client that reads.
func TestSlowClientIsClosed(t *testing.T) {
	t.Parallel()
	srv := patientServer(t)
	own, err := nats.Connect("", append(bridge.ConnectOptions(nil), nats.InProcessServer(newPipeDialer(srv)))...)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	b, err := bridge.Start(t.Context(), own, testenv.Store(t), bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Drain(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	reader, err := nats.Connect(srv.ClientURL(), nats.Timeout(testenv.Patience()), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	item := strings.Repeat("x", unreadSize)
	ask := func(subject, body string) *nats.Msg {
		t.Helper()
		m, err := reader.Request(subject, []byte(body), testenv.Patience())
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
		return m
	}
	// While the other client's peeks wait, a busy machine refuses this one's.
	sees := func() bool {
		m := ask("pq.jobs.peek.min", "")
		if code := m.Header.Get("Nats-Service-Error-Code"); code != "429" && string(m.Data) != item {
			t.Errorf("the reader sees %d bytes, status %q", len(m.Data), code)
		}
		return len(m.Data) > 0
	}
	ask("pq.jobs.push.1", item)
	until(t, "the reader sees the item", sees)
	client := newSilent(t, srv, "silent", strings.Repeat("PUB pq.jobs.peek.min _INBOX.silent 0\r\n\r\n", unreadMessages))
	until(t, "everything is answered", func() bool {
		sees()
		c := client.connection(t, srv)
		return c != nil && c.OutMsgs == unreadMessages
	})

	log := &strings.Builder{}
	slow := newSlowClients(srv, []func() (uint64, error){own.GetClientID}, testBudget, slog.New(slog.NewTextHandler(log, nil)))
	ctx, stop := context.WithCancel(t.Context())
	var watched sync.WaitGroup
	watched.Go(func() { slow.Watch(ctx) })
	until(t, "the server has closed the connection", func() bool {
		sees()
		return client.connection(t, srv) == nil
	})
	if !sees() {
		t.Error("the reader is not served")
	}
	stop()
	watched.Wait()

	if err := client.SetReadDeadline(time.Now().Add(testenv.Patience())); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, client) // an end or a reset
	if runtime.GOOS == "linux" && n >= unreadMessages*unreadSize {
		t.Errorf("the server kept all %d bytes for a connection that was closed", n)
	}
	if timeout, is := err.(net.Error); is && timeout.Timeout() {
		t.Errorf("the connection does not end: %v", err)
	}
	if !strings.Contains(log.String(), "name=silent ") || !strings.Contains(log.String(), "address="+client.LocalAddr().String()) || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("expected one line that names the client, the log is:\n%s", log)
	}
	if own.Stats().Reconnects != 0 || reader.IsClosed() {
		t.Error("more than the silent client was cut off")
	}
}

// The bridge's own connection is never closed, however much it has not read.
func TestOwnConnectionIsNotClosed(t *testing.T) {
	t.Parallel()
	srv := patientServer(t)
	commands := "SUB all 2\r\n"
	own, other := newSilent(t, srv, "own", commands+"SUB own 3\r\n"), newSilent(t, srv, "other", commands)
	until(t, "both have subscribed", func() bool {
		a, b := own.connection(t, srv), other.connection(t, srv)
		return a != nil && b != nil && a.NumSubs == 3 && b.NumSubs == 2
	})
	nc, err := nats.Connect(srv.ClientURL(), nats.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for range unreadMessages {
		for _, subject := range []string{"all", "own"} {
			if err := nc.Publish(subject, make([]byte, unreadSize/2)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := nc.FlushTimeout(testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	id := own.connection(t, srv).Cid
	slow := newSlowClients(srv, []func() (uint64, error){func() (uint64, error) { return id, nil }}, testBudget, slog.New(slog.DiscardHandler))
	var closing sync.WaitGroup
	look := func() {
		if err := slow.look(&closing); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the other connection is closed", func() bool {
		look()
		return other.connection(t, srv) == nil
	})
	for range 2 * blindLooks {
		look()
	}
	closing.Wait()
	if own.connection(t, srv) == nil {
		t.Error("the own connection was closed")
	}
}
