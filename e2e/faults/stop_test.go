package faults_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// withSilentClient starts a pqd that holds more for a client than sockets take, and the
// client does not read. The embedded server does not close the connection by itself.
func withSilentClient(t *testing.T) *testenv.Process {
	t.Helper()
	config := filepath.Join(t.TempDir(), "nats.conf")
	pqd.Write(t, config, `listen: "127.0.0.1:-1", write_deadline: "1h"`)
	p := testenv.Daemon(t, "PQ_LISTEN=", "PQ_NATS_CONFIG="+config)
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.URL, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(conn, "CONNECT {\"verbose\":false,\"protocol\":1}\r\nSUB news 1\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	for in, line := bufio.NewReader(conn), ""; line != "PONG\r\n"; {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	nc := p.Connect(t)
	for range 64 {
		if err := nc.Publish("news", make([]byte, 512<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	return p
}

// A pqd that stops says so in /readyz while it waits for clients to read, and in the
// log how many did not.
func TestStopWaitsForClientsToRead(t *testing.T) {
	t.Parallel()
	p := withSilentClient(t)
	p.Terminate(t)
	p.AwaitLog(t, `"stopping"`)
	response, err := http.Get(p.HTTP + "/readyz")
	if err != nil {
		t.Logf("it stopped before it was asked: %v", err) // the machine is very slow
	} else {
		body := make([]byte, 1<<10)
		n, _ := response.Body.Read(body) // short, in one piece
		response.Body.Close()
		if response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body[:n]), `"stopping"`) {
			t.Errorf("/readyz: %d %s", response.StatusCode, body[:n])
		}
	}
	p.AwaitLog(t, "closing connections whose clients did not read")
}

// A second signal ends a pqd at once that waits for clients to read.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := withSilentClient(t)
	p.Terminate(t)
	p.AwaitLog(t, `"stopping"`)
	for ended := false; !ended; { // a signal that comes before pqd forgets the first one is that one again
		p.Terminate(t)
		select {
		case <-p.Exited():
			ended = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	if code := p.AwaitEnd(t); code >= 0 || strings.Contains(p.Log(), "closing connections whose clients did not read") {
		t.Errorf("pqd ended in order, with exit code %d, expected that the signal ends it", code)
	}
}
