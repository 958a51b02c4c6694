package bridge_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// oldServer is a client behind a leaf node that cannot trace messages, as before version
// 2.11 of the NATS server.
type oldServer struct {
	testing.TB
	conn net.Conn
	from *bufio.Reader
}

func joinOldServer(t testing.TB, address string) *oldServer {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := conn.SetDeadline(time.Now().Add(testenv.Patience())); err != nil {
		t.Fatal(err)
	}
	s := &oldServer{t, conn, bufio.NewReader(conn)}
	s.send("CONNECT {\"name\":\"old\",\"version\":\"2.10.0\",\"headers\":true}\r\n")
	return s
}

func (s *oldServer) send(format string, args ...any) {
	s.Helper()
	if _, err := fmt.Fprintf(s.conn, format, args...); err != nil {
		s.Fatal(err)
	}
}

// receive returns the next message, without its headers.
func (s *oldServer) receive() (payload string) {
	s.Helper()
	for {
		line, err := s.from.ReadString('\n')
		if err != nil {
			s.Fatalf("the client behind the old server gets nothing: %v", err)
		}
		part := strings.Fields(line)
		switch {
		case part[0] == "PING":
			s.send("PONG\r\n")
		case strings.HasSuffix(part[0], "MSG"):
			size, err := strconv.Atoi(part[len(part)-1])
			if err != nil {
				s.Fatalf("%q: %v", line, err)
			}
			body := make([]byte, size)
			if _, err := io.ReadFull(s.from, body); err != nil {
				s.Fatal(err)
			}
			payload := string(body)
			if _, behind, headers := strings.Cut(payload, "\r\n\r\n"); headers {
				payload = behind
			}
			return payload
		}
	}
}

// A client behind a server that cannot trace messages counts as listening.
func TestWaiterBehindAnOldServer(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t, func(o *server.Options) {
		o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", -1
	})
	env := &testenv.Bridged{NATS: srv, Store: testenv.Store(t)}
	var err error
	if env.Bridge, err = bridge.Start(t.Context(), srv.Connect(t, bridge.ConnectOptions(nil)...), env.Store, chosen(nil)); err != nil {
		t.Fatal(err)
	}
	bridge.InterestPatience(env.Bridge, testenv.Most)
	c := &client{TB: t, Conn: srv.Connect(t), env: env}
	t.Cleanup(func() { c.drain(env.Bridge) })

	varz, err := srv.Server().Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	old := joinOldServer(t, net.JoinHostPort(varz.LeafNode.Host, strconv.Itoa(varz.LeafNode.Port)))
	headers := "NATS/1.0\r\nPQ-Wait: 100s\r\n\r\n"
	old.send("LS+ _INBOX.old\r\n")
	old.send("HMSG pq.jobs.pop.min + _INBOX.old pq %d %d\r\n%s\r\n", len(headers), len(headers), headers)
	c.waiting("jobs", 1)
	c.push("pq.jobs.push", "x")
	if body := old.receive(); body != "x" {
		t.Errorf("the client behind the old server got %q", body)
	}
}
