package broker

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
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

// An error that the embedded server logs about a client is a warning, with one text for
// all clients.
func TestServerLogOfClients(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := natsLog{log: slog.New(slog.NewTextHandler(&out, nil))}
	log.Errorf(`%s - authentication error - User "%s"`, `127.0.0.1:1234 - cid:5`, "mallory")
	log.Errorf(`[::1]:1234 - wid:6 - "v1.2:go:name" - maximum payload`)
	log.Errorf("Error trying to connect to route")
	log.Errorf("Error trying to connect to route (attempt 7): refused") // every second, of a node that is away
	for _, want := range []string{
		`level=WARN msg="error of a NATS client" host=127.0.0.1 client="127.0.0.1:1234 - cid:5" error="authentication error - User \"mallory\""`,
		`level=WARN msg="error of a NATS client" host=::1 client="[::1]:1234 - wid:6" error="\"v1.2:go:name\" - maximum payload"`,
		`level=ERROR msg="Error trying to connect to route"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("logged\n%s\nexpected %s", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "attempt 7") {
		t.Errorf("logged an attempt to reach a node that is away\n%s", out.String())
	}
}

// What a configuration file says about lame duck mode does not cut off clients while
// pqd lets them read.
func TestLameDuckOutlastsTheStop(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(`lame_duck_grace_period: "1s", lame_duck_duration: "30s"`), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := readServerOptions(settings.Settings{NATSConfig: settings.ExistingFile(file), Listen: settings.Address{Host: "127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	if e.Options.LameDuckGracePeriod <= process.ShutdownLimit || e.Options.LameDuckDuration <= e.Options.LameDuckGracePeriod {
		t.Errorf("lame duck mode closes connections after %s, all by %s", e.Options.LameDuckGracePeriod, e.Options.LameDuckDuration)
	}
}
