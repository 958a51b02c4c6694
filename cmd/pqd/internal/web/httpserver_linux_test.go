package web

import (
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/internal/gateway"
)

// dialAs connects to a loopback address by a socket of a user.
func dialAs(t *testing.T, user int, to *net.TCPAddr) net.Conn {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := unix.SetfsuidRetUid(user); err != nil { // of this thread alone
		t.Fatal(err)
	}
	defer unix.Setfsuid(os.Getuid())
	family, address := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: to.Port, Addr: [4]byte{127, 0, 0, 1}})
	if to.IP.To4() == nil {
		family, address = unix.AF_INET6, &unix.SockaddrInet6{Port: to.Port, Addr: [16]byte(net.IPv6loopback)}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "client")
	defer file.Close()
	if err := unix.Connect(fd, address); err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Changes that are for programs of this user are not for one of another user, whatever it sends: a proxy that hides that it is one
// runs as another user.
func TestChangesOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: CLIENTS OF ANOTHER USER: expected to run as root")
	}
	g, err := gateway.New(gateway.Options{Prefix: "pq", Changes: true, Near: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{"127.0.0.1:0", "[::1]:0"} {
		var address settings.Address
		if err := address.Decode(where); err != nil {
			t.Fatal(err)
		}
		s, err := startHTTP(address, nil, g, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Logf("%s: %v", where, err) // a machine without IPv6
			continue
		}
		t.Cleanup(func() {
			if err := s.stop(); err != nil {
				t.Error(err)
			}
		})
		for user, want := range map[int]string{0: " 503 ", 65534: " 403 "} { // pqd has no connection to NATS yet
			conn := dialAs(t, user, s.listener.Addr().(*net.TCPAddr))
			if _, err := io.WriteString(conn, "DELETE /v1/queues/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(conn)
			if line, _, _ := strings.Cut(string(text), "\r\n"); err != nil || !strings.Contains(line, want) {
				t.Errorf("user %d at %s: %q, %v, expected%s", user, where, text, err, want)
			}
		}
	}
}
