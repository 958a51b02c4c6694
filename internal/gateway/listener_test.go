package gateway

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
)

// Connections beyond the share of an address are closed at once, until others of it end.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	l := limit(web.Listener, 6).(*limited)
	web.Listener = l
	web.Start()
	t.Cleanup(web.Close)
	answered := func() (net.Conn, error) {
		t.Helper()
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // it may be closed
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		_, err = conn.Read(make([]byte, 100))
		return conn, err
	}
	var conns []net.Conn
	for i := range 3 {
		conn, err := answered()
		if err != nil {
			t.Fatalf("connection %d: %v", i+1, err)
		}
		conns = append(conns, conn)
	}
	if _, err := answered(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection too many: %v", err)
	}
	_ = conns[0].Close()
	(&site{TB: t}).await("the connection has left", func() bool { return l.conns.taken() == 2 })
	if _, err := answered(); err != nil {
		t.Error(err)
	}
	l.conns.mu.Lock()
	defer l.conns.mu.Unlock()
	if n := l.conns.of[here]; n != 3 || len(l.conns.of) != 1 {
		t.Errorf("%v", l.conns.of)
	}
}

// An address is the same, however it is written. Machines have many IPv6 addresses of one
// network.
func TestSourceOf(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1/32", "[::ffff:192.0.2.1]:2": "192.0.2.1/32", "[2001:db8::1]:1": "2001:db8::/64", "[2001:db8:0:0:ffff::1]:1": "2001:db8::/64",
		"[2001:db8:0:1::1]:1": "2001:db8:0:1::/64", "[fe80::1%eth0]:1": "fe80::/64", "@": "invalid Prefix", "": "invalid Prefix",
	} {
		if got := sourceOf(address).String(); got != want {
			t.Errorf("%s: %s, expected %s", address, got, want)
		}
	}
	if text := busy("%s", sourceOf("").Addr()).Description; !strings.Contains(text, "invalid") {
		t.Error(text)
	}
}
