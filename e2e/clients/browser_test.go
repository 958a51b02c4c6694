package clients_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/chromium"
	"github.com/pqbridge/pqbridge/e2e/internal/nodejs"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// Clients with nats.js in a browser, over WebSocket, on a page of a web server without
// NATS.
func TestBrowserClient(t *testing.T) {
	t.Parallel()
	node, browser := nodejs.Need(t), chromium.Need(t)
	bundle := filepath.Join(t.TempDir(), "bundle.js")
	pqd.Run(t, filepath.Join(node.Packages, ".bin", "esbuild"), // a script, or a program once it is installed
		filepath.Join(nodejs.Scripts, "browser.mjs"), "--bundle", "--format=esm", "--log-level=warning", "--outfile="+bundle)

	config := filepath.Join(t.TempDir(), "nats.conf")
	pqd.Write(t, config, `listen: "127.0.0.1:-1", websocket { listen: "127.0.0.1:-1", no_tls: true }`)
	p := testenv.Daemon(t, "PQ_NATS_CONFIG="+config, "PQ_LISTEN=", "PQ_LOG_LEVEL=debug")
	p.AwaitLog(t, "Listening for websocket clients on ")
	server := regexp.MustCompile(`websocket clients on (ws://127\.0\.0\.1:\d+)`).FindStringSubmatch(p.Log())
	if server == nil {
		t.Fatal("pqd does not say where it listens for websocket clients")
	}

	site := serveScript(t, bundle)
	browser.Open(t, site.URL+"/?server="+url.QueryEscape(server[1]))
	select {
	case results := <-site.reports:
		nodejs.Judge(t, results)
	case <-browser.Exited:
		t.Fatalf("the browser ended before the page reported:\n%s", &browser.Stderr)
	case <-time.After(testenv.Most):
		t.Fatal("the page did not report")
	}
	browser.Close()
	p.Stop(t)
}

// scriptSite is a web server with a page that runs one script, and what the page has sent to it.
type scriptSite struct {
	*httptest.Server
	reports chan []byte
	kills   chan chan<- struct{} // requests to kill pqd, to be closed when it is done
}

func serveScript(t *testing.T, script string) *scriptSite {
	t.Helper()
	site := &scriptSite{reports: make(chan []byte, 1), kills: make(chan chan<- struct{}, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `<!doctype html><meta charset="utf-8"><title>pqbridge</title><script type="module" src="bundle.js"></script>`)
	})
	mux.HandleFunc("GET /bundle.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, script) })
	mux.HandleFunc("POST /report", func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			site.reports <- body
		}
	})
	mux.HandleFunc("POST /kill", func(http.ResponseWriter, *http.Request) {
		killed := make(chan struct{})
		site.kills <- killed
		<-killed
	})
	site.Server = httptest.NewServer(mux)
	t.Cleanup(site.Close)
	return site
}
