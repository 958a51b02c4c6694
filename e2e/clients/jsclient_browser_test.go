package clients_test

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/chromium"
	"github.com/pqbridge/pqbridge/e2e/internal/nodejs"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// The JavaScript client in a browser, over WebSocket, with a pqd that is killed half way.
func TestJavaScriptClientInBrowser(t *testing.T) {
	nightly.Only(t, "TestJavaScriptClient has the same in node")
	t.Parallel()
	node, browser := nodejs.Need(t), chromium.Need(t)
	dir := packed(t, node)
	bundle := filepath.Join(dir, "bundle.js")
	pqd.Run(t, filepath.Join(node.Packages, ".bin", "esbuild"), // a script, or a program once it is installed
		filepath.Join(dir, "test", "page.mjs"), "--bundle", "--minify", "--format=esm", "--log-level=warning", "--outfile="+bundle)

	// After the first start the ports are in the configuration: the page comes back to them.
	config := filepath.Join(t.TempDir(), "nats.conf")
	const form = `listen: "%s", websocket { listen: "%s", no_tls: true }`
	pqd.Write(t, config, fmt.Sprintf(form, "127.0.0.1:-1", "127.0.0.1:-1"))
	p := testenv.Daemon(t, "PQ_NATS_CONFIG="+config, "PQ_LISTEN=", "PQ_LOG_LEVEL=debug")
	p.AwaitLog(t, "Listening for websocket clients on ")
	server := regexp.MustCompile(`websocket clients on ws://(127\.0\.0\.1:\d+)`).FindStringSubmatch(p.Log())
	if server == nil {
		t.Fatal("pqd does not say where it listens for websocket clients")
	}
	pqd.Write(t, config, fmt.Sprintf(form, strings.TrimPrefix(p.URL, "nats://"), server[1]))

	site := serveScript(t, bundle)
	browser.Open(t, site.URL+"/?server="+url.QueryEscape("ws://"+server[1]))
	killed := false
	for results := []byte(nil); results == nil; {
		select {
		case done := <-site.kills:
			p.Kill(t)
			p.Start(t)
			killed = true
			close(done)
		case results = <-site.reports:
			nodejs.Judge(t, results)
		case <-browser.Exited:
			t.Fatalf("the browser ended before the page reported:\n%s", &browser.Stderr)
		case <-time.After(testenv.Most):
			t.Fatal("the page did not report")
		}
	}
	if !killed {
		t.Error("pqd was not killed")
	}
	browser.Close()
	p.Stop(t)
}
