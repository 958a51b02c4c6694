package settings_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// inUse returns an address that another process listens on.
func inUse(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	address := inUse(t)
	_, port, _ := net.SplitHostPort(address)
	config := filepath.Join(t.TempDir(), "nats.conf")
	pqd.Write(t, config, "listen: 127.0.0.1:"+port)
	for _, c := range []struct {
		env  []string
		says []string
	}{
		{[]string{"PQ_LISTEN=" + address, "PQ_HTTP=127.0.0.1:0"}, []string{address, "address already in use", "PQ_LISTEN", "NATS_URL"}},
		{[]string{"PQ_NATS_CONFIG=" + config, "PQ_HTTP=127.0.0.1:0"}, []string{address, "address already in use", "PQ_NATS_CONFIG"}},
		{[]string{"PQ_LISTEN=127.0.0.1:0", "PQ_HTTP=" + address}, []string{address, "address already in use", "another program, perhaps another pqd, listens there: choose another address with PQ_HTTP"}},
	} {
		code, _, stderr := testenv.Run(t, c.env)
		if code != 1 {
			t.Errorf("%v: exit code %d, expected 1", c.env, code)
		}
		for _, part := range c.says {
			if !strings.Contains(stderr, part) {
				t.Errorf("%v: expected %q in: %s", c.env, part, stderr)
			}
		}
	}
}

func TestStoreHasOneProcess(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	code, _, stderr := testenv.Run(t, []string{"PQ_STORE=local:" + p.Dir, "PQ_LISTEN=127.0.0.1:0", "PQ_HTTP=127.0.0.1:0"})
	if code != 1 {
		t.Errorf("exit code %d, expected 1", code)
	}
	for _, part := range []string{"PQ_STORE", p.Dir, "in use by another process"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("expected %q in: %s", part, stderr)
		}
	}
	nc := p.Connect(t)
	pqd.Push(t, nc, "jobs", 1, "the first process goes on")
}

func TestServesAnotherNATS(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t, func(o *server.Options) { o.Username, o.Password = "bridge", "secret" })
	p := testenv.Daemon(t, "NATS_URL="+srv.URL(), "NATS_USER=bridge", "NATS_PASSWORD=secret")
	nc := srv.Connect(t, nats.UserInfo("bridge", "secret"))
	pqd.Push(t, nc, "jobs", 1, "x")
	if body := pqd.Pop(t, nc, "jobs", "min"); body != "x" {
		t.Errorf("popped %q, expected x", body)
	}
	p.Stop(t)
}

func TestRefusedByNATS(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t, func(o *server.Options) { o.Username, o.Password = "bridge", "secret" })
	code, _, stderr := testenv.Run(t, []string{"NATS_URL=" + srv.URL(), "NATS_USER=bridge", "NATS_PASSWORD=wrong", "PQ_HTTP=127.0.0.1:0"})
	if code != 1 {
		t.Errorf("exit code %d, expected 1", code)
	}
	for _, part := range []string{srv.URL(), "Authorization Violation", "NATS_CREDS"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("expected %q in: %s", part, stderr)
		}
	}
	if strings.Contains(stderr, "wrong") {
		t.Errorf("the password stands in: %s", stderr)
	}
}

// The embedded server asks for a login if its configuration has users, and the bridge
// logs in like any client.
func TestEmbeddedNATSWithUsers(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "nats.conf")
	pqd.Write(t, config, `listen: "127.0.0.1:-1", authorization { users: [{user: bridge, password: secret}, {user: app, password: other}] }`)
	p := testenv.Daemon(t, "PQ_LISTEN=", "PQ_NATS_CONFIG="+config, "NATS_USER=bridge", "NATS_PASSWORD=secret")
	if nc, err := nats.Connect(p.URL); err == nil {
		nc.Close()
		t.Error("connected without a password")
	}
	nc := p.Connect(t, nats.UserInfo("app", "other"))
	pqd.Push(t, nc, "jobs", 1, "x")
	p.Stop(t)

	code, _, stderr := testenv.Run(t, []string{"PQ_STORE=local:" + t.TempDir(), "PQ_NATS_CONFIG=" + config, "PQ_HTTP=127.0.0.1:0",
		"NATS_USER=bridge", "NATS_PASSWORD=wrong"})
	if code != 1 {
		t.Errorf("exit code %d, expected 1", code)
	}
	for _, part := range []string{"embedded", "Authorization Violation", "IN_PROCESS", "NATS_CREDS"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("expected %q in: %s", part, stderr)
		}
	}
}

// The bridge needs no certificate to reach a server in its own process.
func TestEmbeddedNATSWithTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := pqd.Certificate(t, dir)
	config := filepath.Join(dir, "nats.conf")
	pqd.Write(t, config, fmt.Sprintf(`listen: "127.0.0.1:-1", tls { cert_file: %q, key_file: %q }`, cert, key))
	p := testenv.Daemon(t, "PQ_LISTEN=", "PQ_NATS_CONFIG="+config)
	nc := p.Connect(t, nats.RootCAs(cert))
	pqd.Push(t, nc, "jobs", 1, "x")
	p.Stop(t)
}

// pqd and its NATS servers may be started in any order.
func TestWaitsForNATS(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t)
	url := srv.URL()
	srv.Shutdown()
	p := testenv.Launch(t, "NATS_URL="+url)
	p.AwaitLog(t, "waiting for NATS")
	srv.Restart(t)
	p.AwaitReady(t)
	nc := srv.Connect(t)
	pqd.Push(t, nc, "jobs", 1, "x")
	p.Stop(t)
}

// A stop while pqd waits for NATS is no failure.
func TestStopsWhileItWaitsForNATS(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t)
	url := srv.URL()
	srv.Shutdown()
	p := testenv.Launch(t, "NATS_URL="+url)
	p.AwaitLog(t, "waiting for NATS")
	p.Stop(t)
}

// While NATS is away pqd is not ready, and lives, because another start mends nothing; afterwards it works again.
func TestOutlivesNATS(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t)
	p := testenv.Daemon(t, "NATS_URL="+srv.URL())
	nc := srv.Connect(t)
	pqd.Push(t, nc, "jobs", 1, "before")
	nc.Close()

	srv.Shutdown()
	p.AwaitLog(t, "disconnected from NATS")
	for page, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		if code, body := pqd.Get(t, p.HTTP+page); code != want {
			t.Errorf("%s without NATS: %d %s, expected %d", page, code, body, want)
		}
	}

	srv.Restart(t)
	p.AwaitLog(t, "reconnected to NATS")
	nc = srv.Connect(t)
	reply, err := pqd.UntilServed(nc, &nats.Msg{Subject: "pq.jobs.pop.min"}) // the server has to read pqd's subscriptions
	if err != nil {
		t.Fatal(err)
	}
	if string(reply.Data) != "before" {
		t.Errorf("popped %q, expected what was there before", reply.Data)
	}
	p.Stop(t)
}

// An error that nats.go does not recover from closes the connection for good. pqd makes another one when
// there is a server again; until then it lives, and is not ready.
func TestConnectionClosedForGood(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			relay(conn, strings.TrimPrefix(srv.URL(), "nats://"))
		}
	}()
	p := testenv.Daemon(t, "NATS_URL=nats://"+listener.Addr().String())
	srv.Shutdown()
	p.AwaitLog(t, "the NATS server ended a connection for an error")
	if log := p.Log(); !strings.Contains(log, "Maximum Payload Violation") {
		t.Errorf("the reason is not in: %s", log)
	}
	for page, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		if code, text := pqd.Get(t, p.HTTP+page); code != want {
			t.Errorf("%s: %d %s, expected %d", page, code, text, want)
		}
	}
	srv.Restart(t)
	testenv.Await(t, "pqd is ready on another connection", func() bool {
		code, _ := pqd.Get(t, p.HTTP+"/readyz")
		return code == 200
	})
	p.Stop(t)
}

// relay passes on what a client and a NATS server say. When the server is gone, it tells
// the client of an error.
func relay(client net.Conn, server string) {
	conn, err := net.Dial("tcp", server)
	if err != nil {
		client.Close()
		return
	}
	go func() { _, _ = io.Copy(conn, client) }()
	_, _ = io.Copy(client, conn)
	conn.Close()
	_, _ = io.WriteString(client, "-ERR 'Maximum Payload Violation'\r\n")
}

// Two stores behind one prefix would each get a share of every queue.
func TestRefusesToSplitQueues(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t)
	first := testenv.Daemon(t, "NATS_URL="+srv.URL())
	code, _, stderr := testenv.Run(t, []string{"NATS_URL=" + srv.URL(), "PQ_HTTP=127.0.0.1:0"})
	if code != 1 {
		t.Errorf("exit code %d, expected 1", code)
	}
	info, err := srv.Connect(t).Request("pq._sys.info", nil, testenv.Patience())
	if err != nil {
		t.Fatal(err)
	}
	var serving struct {
		StoreID string `json:"store_id"`
	}
	if err := json.Unmarshal(info.Data, &serving); err != nil || serving.StoreID == "" {
		t.Fatalf("%s: %v", info.Data, err)
	}
	for _, part := range []string{"prefix", `"pq"`, serving.StoreID} {
		if !strings.Contains(stderr, part) {
			t.Errorf("expected %q in: %s", part, stderr)
		}
	}
	second := testenv.Daemon(t, "NATS_URL="+srv.URL(), "PQ_PREFIX=other.queues")
	for _, nested := range []string{"pq.jobs", "other", "other.queues.more"} {
		code, _, stderr := testenv.Run(t, []string{"NATS_URL=" + srv.URL(), "PQ_HTTP=127.0.0.1:0", "PQ_PREFIX=" + nested})
		if code != 1 || !strings.Contains(stderr, strconv.Quote(nested)) || !strings.Contains(stderr, "within the other") {
			t.Errorf("prefix %s: exit code %d, %s", nested, code, stderr)
		}
	}
	third := testenv.Daemon(t, "NATS_URL="+srv.URL(), "PQ_PREFIX=pqjobs") // no token of it is pq
	third.Stop(t)
	second.Stop(t)
	first.Stop(t)
}

// A pop that waits when pqd stops gets an answer.
func TestStopAnswersWaitingPops(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	nc := p.Connect(t)
	inbox, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: inbox.Subject, Header: nats.Header{"PQ-Wait": {"100s"}}}); err != nil {
		t.Fatal(err)
	}
	pqd.Push(t, nc, "elsewhere", 1, "what is sent later is answered, so the pop has arrived")
	p.Stop(t)
	reply, err := inbox.NextMsg(testenv.Patience())
	if err != nil {
		t.Fatal(err)
	}
	if status := reply.Header.Get("Status"); status != "409" {
		t.Errorf("status %q %q, expected 409", status, reply.Header.Get("Description"))
	}
}
