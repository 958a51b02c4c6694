package operations_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// encrypted is a pqd that serves HTTPS, with a client that trusts its certificate.
type encrypted struct {
	*testenv.Process
	client    *http.Client
	cert, key string // files
}

func serveHTTPS(t *testing.T, env ...string) encrypted {
	t.Helper()
	cert, key := pqd.Certificate(t, t.TempDir())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pqd.Trusted(t, cert)}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	p := testenv.Daemon(t, append(env, "PQ_HTTP_CERT="+cert, "PQ_HTTP_KEY="+key)...)
	return encrypted{p, &http.Client{Timeout: testenv.Patience(), Transport: transport}, cert, key}
}

// ask sends a request, without a body to show, and returns the answer and its body.
func (e encrypted) ask(t *testing.T, method, path, body string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, e.HTTP+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := e.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

// shown is the serial number of the certificate that pqd shows to a new connection.
func (e encrypted) shown(t *testing.T, config *tls.Config) string {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(e.HTTP, "https://"), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return fmt.Sprintf("%x", conn.ConnectionState().PeerCertificates[0].Signature)
}

// All pages are encrypted, and nothing is served without.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	e := serveHTTPS(t, "PQ_CONSOLE=admin")
	for path, part := range map[string]string{"/readyz": "ok", "/healthz": "ok", "/metrics": "pq_ready 1", "/": "<!doctype html>", "/console/main.js": "import", "/v1/access": "admin"} {
		if answer, body := e.ask(t, "GET", path, ""); answer.StatusCode != 200 || answer.ProtoMajor != 1 || !strings.Contains(body, part) {
			t.Errorf("%s: %s by %s: %s", path, answer.Status, answer.Proto, body)
		}
	}
	if answer, body := e.ask(t, "POST", "/v1/queues/jobs/push", "hush"); answer.StatusCode != 200 {
		t.Errorf("a push: %s %s", answer.Status, body)
	}
	if answer, body := e.ask(t, "POST", "/v1/queues/jobs/pop", ""); answer.StatusCode != 200 || !strings.Contains(body, "hush") {
		t.Errorf("a pop: %s %s", answer.Status, body)
	}
	if code, body := pqd.Get(t, strings.Replace(e.HTTP, "https:", "http:", 1)+"/v1/queues"); code != 400 || strings.Contains(body, "jobs") {
		t.Errorf("without TLS: %d %s", code, body)
	}
	old := &tls.Config{RootCAs: pqd.Trusted(t, e.cert), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	if conn, err := tls.Dial("tcp", strings.TrimPrefix(e.HTTP, "https://"), old); err == nil {
		_ = conn.Close()
		t.Error("pqd speaks TLS 1.1")
	}
	e.Stop(t)
}

// A new certificate holds from the next connection on. Half of one changes nothing.
func TestHTTPSCertificateChanges(t *testing.T) {
	t.Parallel()
	e := serveHTTPS(t)
	anyone := &tls.Config{InsecureSkipVerify: true}
	first := e.shown(t, anyone)
	e.ask(t, "GET", "/readyz", "") // a connection that stays

	cert, key := pqd.Certificate(t, t.TempDir())
	replace := func(file, by string) {
		t.Helper()
		temporary := filepath.Join(filepath.Dir(file), "new")
		pqd.Write(t, temporary, pqd.Read(t, by))
		if err := os.Rename(temporary, file); err != nil {
			t.Fatal(err)
		}
	}
	replace(e.cert, cert)
	testenv.Await(t, "pqd finds that the files do not belong together", func() bool {
		if e.shown(t, anyone) != first {
			t.Fatal("pqd shows a certificate without its key")
		}
		return strings.Contains(e.Log(), "does not match")
	})
	replace(e.key, key)
	testenv.Await(t, "the new certificate is shown", func() bool { return e.shown(t, anyone) != first })
	e.shown(t, &tls.Config{RootCAs: pqd.Trusted(t, cert)}) // it is the one in the file
	if !strings.Contains(e.Log(), "took the new certificate") {
		t.Error("the log says nothing about it")
	}
	if answer, _ := e.ask(t, "GET", "/readyz", ""); answer.StatusCode != 200 {
		t.Errorf("on the old connection: %s", answer.Status)
	}
	if err := os.Remove(e.key); err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "pqd finds that the key is gone", func() bool {
		e.shown(t, &tls.Config{RootCAs: pqd.Trusted(t, cert)})
		return strings.Contains(e.Log(), "no such file")
	})
}

// Connections that never begin to speak TLS keep no other address out: those beyond the
// share of theirs are closed at once.
func TestHTTPSWithSilentClients(t *testing.T) {
	t.Parallel()
	e := serveHTTPS(t)
	at := strings.TrimPrefix(e.HTTP, "https://")
	const share, more = 512, 88
	var silent []net.Conn
	for range share + more {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // pqd closes those that are too many
		silent = append(silent, conn)
	}
	closed := func(conn net.Conn, wait time.Duration) error {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			t.Fatal(err)
		}
		_, err := conn.Read(make([]byte, 1))
		return err
	}
	for i, conn := range silent[share:] {
		if err := closed(conn, testenv.Patience()); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("connection %d of one address: %v, expected that pqd closes it", share+i+1, err)
		}
	}
	if err := closed(silent[0], 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the first connection of the address: %v, expected that it outlives those that are too many", err)
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}, Config: &tls.Config{RootCAs: pqd.Trusted(t, e.cert)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", at)
	if err != nil && strings.Contains(err.Error(), "assign requested address") {
		t.Skip("this machine has one loopback address")
	}
	if err != nil {
		t.Fatalf("from another address: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// pqd probe says whether the pqd of its settings is ready, with TLS and without. The image
// asks it.
func TestProbe(t *testing.T) {
	t.Parallel()
	plain := testenv.Daemon(t)
	for name, p := range map[string]*testenv.Process{"http": plain, "https": serveHTTPS(t).Process} {
		if code, stdout, stderr := p.RunBeside(t, "probe"); code != 0 || stdout+stderr != "" {
			t.Errorf("%s: exit code %d: %s%s", name, code, stdout, stderr)
		}
		p.Kill(t)
		if code, _, stderr := p.RunBeside(t, "probe"); code != 1 || !strings.Contains(stderr, "refused") {
			t.Errorf("%s, killed: exit code %d: %s", name, code, stderr)
		}
	}
	const silent = "nothing"
	for body, says := range map[string]string{
		`{"status":"unavailable","error":"NATS is away"}`: "not ready: NATS is away", "<html>": "503 Service Unavailable: expected pqd's /readyz", silent: "deadline exceeded",
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path != "/readyz": // pqd lives, and that is not what is asked
			case body == silent:
				<-r.Context().Done()
			default:
				http.Error(w, body, http.StatusServiceUnavailable)
			}
		}))
		if code, _, stderr := testenv.Run(t, []string{"PQ_HTTP=" + web.Listener.Addr().String()}, "probe"); code != 1 || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d: %s", body, code, stderr)
		}
		web.Close()
	}
	if file := pqd.Read(t, "../../Dockerfile"); !strings.Contains(file, `CMD ["pqd", "probe"]`) {
		t.Error("the image asks something else for its health")
	}
}
