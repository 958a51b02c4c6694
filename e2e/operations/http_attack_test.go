package operations_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// dial opens connections to a page of pqd from an address, and sends a text on each. It
// returns how many could be opened.
func dial(t *testing.T, p *testenv.Process, from string, n int, text string) (opened int) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	for range n {
		conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(p.HTTP, "http://"))
		if err != nil {
			t.Logf("after %d connections from %s: %v", opened, from, err)
			return opened
		}
		t.Cleanup(func() { _ = conn.Close() }) // pqd closes those that are too many
		if _, err := fmt.Fprintf(conn, text, p.HTTP[len("http://"):]); err == nil {
			opened++
		}
	}
	return opened
}

// Clients that send their requests slowly, or not to the end, keep nobody else out: not by the
// places of requests, and not by connections.
func TestSlowHTTPClients(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t, "PQ_CONSOLE=admin")
	pqd.Ask(t, "POST", p.HTTP+"/v1/queues/jobs/push", "x")
	for _, request := range []string{
		"GET /v1/queues HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST /v1/queues/mine/push HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000000\r\n\r\nx",
	} {
		dial(t, p, "127.0.0.1", 150, request)
	}
	for range 50 {
		if code, body := pqd.Ask(t, "GET", p.HTTP+"/v1/queues/jobs", ""); code != 200 {
			t.Fatalf("beside slow clients: %d %s", code, body)
		}
		if code, body := pqd.Ask(t, "POST", p.HTTP+"/v1/queues/jobs/push", strings.Repeat("x", 100<<10)); code != 200 {
			t.Fatalf("a push beside slow clients: %d %s", code, body)
		}
	}
	dial(t, p, "127.0.0.1", 600, "GET /readyz HTTP/1.1\r\nHost: %s\r\n")
	other := http.Client{Timeout: testenv.Patience(), Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}).DialContext(ctx, network, address)
		}}}
	for _, path := range []string{"/readyz", "/v1/queues/jobs"} {
		answer, err := other.Get(p.HTTP + path)
		switch {
		case err != nil && strings.Contains(err.Error(), "assign requested address"):
			t.Skip("this machine has one loopback address")
		case err != nil:
			t.Fatalf("from another address: %v", err)
		}
		if answer.Body.Close(); answer.StatusCode != 200 {
			t.Errorf("from another address: %s", answer.Status)
		}
	}
	other.CloseIdleConnections()
	p.Stop(t)
}

// Streams with many large answers that nobody reads keep the changes of other pages from
// nobody.
func TestLargeStreams(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t, "PQ_CONSOLE=admin")
	for range 10 {
		pqd.Ask(t, "POST", p.HTTP+"/v1/queues/large/push", strings.Repeat("<", 40<<10))
	}
	for i := range 6 {
		query := make(url.Values)
		for j := range 62 {
			query.Add("path", fmt.Sprintf("/v1/queues/large/items?bodies=true&limit=%d", 11+i*62+j))
		}
		dial(t, p, "127.0.0.1", 1, "GET /v1/watch?"+strings.ReplaceAll(query.Encode(), "%", "%%")+" HTTP/1.1\r\nHost: %s\r\n\r\n")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.HTTP+"/v1/watch?path=/v1/queues/jobs&path=/v1/queues/large/items?bodies=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewScanner(stream.Body)
	lines.Buffer(nil, 1<<20)
	until := func(parts ...string) {
		t.Helper()
		for lines.Scan() {
			missing := false
			for _, part := range parts {
				missing = missing || !strings.Contains(lines.Text(), part)
			}
			if !missing {
				return
			}
		}
		t.Fatalf("the stream ended before %q: %v", parts, lines.Err())
	}
	until(`"path":"/v1/queues/large/items?bodies=true"`, `"status":413`, "ask for it without a stream")
	pqd.Ask(t, "POST", p.HTTP+"/v1/queues/jobs/push", "x")
	until(`"path":"/v1/queues/jobs"`, `"ready":1`)
	p.Stop(t)
}
