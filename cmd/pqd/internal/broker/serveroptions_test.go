package broker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/testenv"
)

// A server that stops announces it, and waits until clients have read everything that it
// has for them, however late they begin.
func TestEmbeddedServerLetsClientsRead(t *testing.T) {
	t.Parallel()
	const messages, size = 256, 256 << 10
	e, err := readServerOptions(settings.Settings{Listen: settings.Address{Host: "127.0.0.1", Port: server.RANDOM_PORT}})
	if err != nil {
		t.Fatal(err)
	}
	e.Options.MaxPending, e.Options.WriteDeadline = 2*messages*size, testenv.Patience()
	srv, err := e.start(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	conn, err := net.Dial("tcp", strings.TrimPrefix(srv.ClientURL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "CONNECT {\"verbose\":false,\"protocol\":1}\r\nSUB answers 1\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for line := ""; line != "PONG\r\n"; {
		if line, err = in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	lameDuck := make(chan struct{})
	nc, err := nats.Connect(srv.ClientURL(), nats.Timeout(testenv.Patience()),
		nats.LameDuckModeHandler(func(*nats.Conn) { close(lameDuck) }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for range messages {
		if err := nc.Publish("answers", make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(testenv.Patience()); err != nil {
		t.Fatal(err)
	}

	over, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := awaitRead(over, srv); n == 0 || err != nil {
		t.Errorf("out of time, %d connections are behind, %v: expected the one that does not read", n, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience())
	defer cancel()
	enterLameDuck(ctx, srv, lameDuck)
	stopped := make(chan error, 1)
	go func() {
		n, err := awaitRead(ctx, srv)
		if n > 0 {
			err = fmt.Errorf("%d connections are behind", n)
		}
		srv.Shutdown()
		stopped <- err
	}()
	read, announced := 0, false
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break // the server has closed the connection
		}
		switch {
		case strings.HasPrefix(line, "MSG answers"):
			if _, err := io.CopyN(io.Discard, in, size+2); err != nil {
				t.Fatalf("cut off within message %d: %v", read, err)
			}
			read++
		case strings.HasPrefix(line, "INFO"):
			announced = announced || strings.Contains(line, `"ldm":true`)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if read != messages || !announced {
		t.Errorf("read %d of %d messages; announced the stop: %t", read, messages, announced)
	}
}
