package main_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/testenv"
)

// Clients with nats.js in a browser, over WebSocket, on a page of a web server without
// NATS.
func TestBrowserClient(t *testing.T) {
	t.Parallel()
	node, browser := needNode(t), needBrowser(t)
	bundle := filepath.Join(t.TempDir(), "bundle.js")
	run(t, filepath.Join(node.packages, ".bin", "esbuild"), // a script, or a program once it is installed
		filepath.Join(scripts, "browser.mjs"), "--bundle", "--format=esm", "--log-level=warning", "--outfile="+bundle)

	config := filepath.Join(t.TempDir(), "nats.conf")
	write(t, config, `listen: "127.0.0.1:-1", websocket { listen: "127.0.0.1:-1", no_tls: true }`)
	p := testenv.Daemon(t, "PQ_NATS_CONFIG="+config, "PQ_LISTEN=", "PQ_LOG_LEVEL=debug")
	p.AwaitLog(t, "Listening for websocket clients on ")
	server := regexp.MustCompile(`websocket clients on (ws://127\.0\.0\.1:\d+)`).FindStringSubmatch(p.Log())
	if server == nil {
		t.Fatal("pqd does not say where it listens for websocket clients")
	}

	site := serveScript(t, bundle)
	browser.open(t, site.URL+"/?server="+url.QueryEscape(server[1]))
	select {
	case results := <-site.reports:
		judgeSuite(t, results)
	case <-browser.exited:
		t.Fatalf("the browser ended before the page reported:\n%s", &browser.stderr)
	case <-time.After(2 * patience):
		t.Fatal("the page did not report")
	}
	browser.close()
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

// chromium is a browser without a window.
type chromium struct {
	path   string
	cmd    *exec.Cmd
	exited chan struct{}
	stderr bytes.Buffer // to be read when it has exited
}

// needBrowser skips the test where there is no Chromium.
func needBrowser(t *testing.T) *chromium {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-headless-shell", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return &chromium{path: path, exited: make(chan struct{})}
		}
	}
	t.Skip("NOT TESTED IN A BROWSER: there is no chromium")
	return nil
}

// open shows a page, and allows no other connections.
func (c *chromium) open(t *testing.T, page string) { c.start(t, "--disable-quic", page) }

// start starts the browser with a profile of its own, which it returns.
func (c *chromium) start(t *testing.T, arguments ...string) (profile string) {
	t.Helper()
	profile, err := os.MkdirTemp("", "pqbridge-browser-")
	if err != nil {
		t.Fatal(err)
	}
	c.cmd = exec.Command(c.path, append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-dev-shm-usage", "--disable-breakpad", "--disable-background-networking", "--disable-component-update",
		"--disable-sync", "--disable-extensions", "--no-proxy-server", "--user-data-dir=" + profile}, arguments...)...)
	c.cmd.Stderr = &c.stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it starts processes of its own
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.exited)
		_ = c.cmd.Wait() // it is killed
	}()
	t.Cleanup(func() {
		c.close()
		if err := os.RemoveAll(profile); err != nil {
			t.Logf("the browser's last words: %v", err)
		}
	})
	return profile
}

// close ends the browser and all its processes.
func (c *chromium) close() {
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // it may have ended already
	<-c.exited
}
