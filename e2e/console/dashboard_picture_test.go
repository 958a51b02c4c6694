package console_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

var (
	grafanaHome = flag.String("pq.grafana", "", "make the pictures of the dashboard in docs/pictures with the Grafana that is installed here")
	grafanaDay  = flag.Duration("pq.day", 6*time.Minute, "how long the shop of the dashboard is at work before")
)

// sell does, until ctx ends, what the dashboard has panels for and the console has not:
// consumers with leases, which succeed or do not, and queues that are full.
func (s shop) sell(ctx context.Context) {
	var workers sync.WaitGroup
	every := func(pause time.Duration, do func(i int)) {
		workers.Go(func() {
			ticker := time.NewTicker(pause)
			defer ticker.Stop()
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
					do(i)
				}
			}
		})
	}
	mail, invoices, video := s.c.Queue("mail"), s.c.Queue("invoices"), s.c.Queue("encode-video")
	every(40*time.Millisecond, func(i int) {
		options := []client.PushOption{client.Priority(int64(i % 3)), client.Key(tenants[i%5])}
		if i%10 == 0 {
			options = append(options, client.Delay(20*time.Second))
		}
		_, _ = mail.Push(ctx, []byte("x"), options...) // it may be the end
	})
	every(50*time.Millisecond, func(i int) {
		item, err := mail.Pop(ctx, client.Min, client.Lease(10*time.Second))
		switch {
		case err != nil: // nothing to do, or the end
		case i%100 == 17:
			_ = item.Terminate(ctx, "no such address")
		case i%25 == 3:
			_ = item.Nack(ctx)
		case i%40 != 5: // its consumer is gone
			_ = item.Ack(ctx)
		}
	})
	every(400*time.Millisecond, func(int) { _, _ = invoices.Push(ctx, []byte("x"), client.Priority(1)) }) // it is full soon
	every(700*time.Millisecond, func(int) {
		if item, err := video.Pop(ctx, client.Min, client.Lease(time.Minute)); err == nil {
			_ = item.Ack(ctx)
		}
	})
	workers.Wait()
}

// The pictures of the dashboard are made by make pictures with a Grafana: what it shows of a
// shop's pqd after some minutes of work, by a Prometheus.
func TestDashboardPictures(t *testing.T) {
	if *grafanaHome == "" {
		t.Skip("the pictures of the dashboard are made on demand: make pictures GRAFANA=<where Grafana is installed>")
	}
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	c, err := client.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	source := startPrometheus(t, p)
	site := startGrafana(t, source)

	s := shop{t, nc, c}
	defer s.open(p)()
	patch(t, p, "invoices/config", `{"max_length":250}`)
	ctx, cancel := context.WithCancel(t.Context())
	var sales sync.WaitGroup
	defer sales.Wait()
	defer cancel()
	sales.Go(func() { s.sell(ctx) })
	<-time.After(*grafanaDay) // a picture needs a past

	page := site + "/d/pqbridge/pqbridge?from=now-5m&to=now&kiosk&theme="
	for _, theme := range []string{"light", "dark"} {
		b.Open("about:blank")
		b.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1280, "height": 852, "deviceScaleFactor": 1, "mobile": false}, nil)
		b.Open(page + theme)
		b.Sees("thumbnails popped")
		b.Until("the panels are drawn", `document.querySelectorAll("canvas").length >= 9 && !document.querySelector("[aria-label='Panel loading bar']")`)
		b.Picture(filepath.Join("..", "..", "docs", "pictures", "dashboard-"+theme+".webp"), 1280, 852, theme)
	}
}

// program runs a server that listens on an address of its own until the test ends, and waits
// until a path answers 200.
func program(t *testing.T, ready string, command func(address string) *exec.Cmd) (site string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(address)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		_ = log.Close()
		if t.Failed() {
			t.Logf("%s: %s", cmd, pqd.Read(t, log.Name()))
		}
	})
	testenv.Await(t, cmd.Path+" is ready", func() bool {
		answer, err := (&http.Client{Timeout: testenv.Attempt()}).Get("http://" + address + ready)
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
	return "http://" + address
}

// startPrometheus has a Prometheus scrape a pqd.
func startPrometheus(t *testing.T, p *testenv.Process) (site string) {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal("the dashboard needs prometheus")
	}
	at, err := url.Parse(p.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	pqd.Write(t, config, fmt.Sprintf("scrape_configs: [{job_name: pqd, scrape_interval: 2s, static_configs: [{targets: [%q]}]}]", at.Host))
	return program(t, "/-/ready", func(address string) *exec.Cmd {
		return pqd.Command(t, path, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	})
}

const dashboard = "../../deploy/helm/pqbridge/files/grafana-dashboard.json"

// startGrafana starts a Grafana that shows the dashboard to everybody.
func startGrafana(t *testing.T, source string) (site string) {
	t.Helper()
	dir := t.TempDir()
	dashboards, err := filepath.Abs(filepath.Dir(dashboard))
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{
		"datasources/prometheus.yml": fmt.Sprintf(`{apiVersion: 1, datasources: [{name: Prometheus, type: prometheus, access: proxy, url: %q, isDefault: true, jsonData: {timeInterval: 2s}}]}`, source),
		"dashboards/pqbridge.yml":    fmt.Sprintf(`{apiVersion: 1, providers: [{name: pqbridge, type: file, options: {path: %q}}]}`, dashboards),
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		pqd.Write(t, filepath.Join(dir, file), content)
	}
	server := []string{filepath.Join(*grafanaHome, "bin", "grafana-server")}
	if _, err := os.Stat(filepath.Join(*grafanaHome, "bin", "grafana")); err == nil {
		server = []string{filepath.Join(*grafanaHome, "bin", "grafana"), "server"}
	}
	return program(t, "/api/health", func(address string) *exec.Cmd {
		host, port, _ := strings.Cut(address, ":")
		cmd := pqd.Command(t, server[0], append(server[1:], "--homepath="+*grafanaHome)...)
		cmd.Env = append(os.Environ(), "GF_SERVER_HTTP_ADDR="+host, "GF_SERVER_HTTP_PORT="+port, "GF_PATHS_DATA="+filepath.Join(dir, "data"), "GF_PATHS_LOGS="+dir,
			"GF_PATHS_PLUGINS="+filepath.Join(dir, "plugins"), "GF_PATHS_PROVISIONING="+dir, "GF_AUTH_ANONYMOUS_ENABLED=true", "GF_ANALYTICS_REPORTING_ENABLED=false",
			"GF_ANALYTICS_CHECK_FOR_UPDATES=false", "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES=false", "GF_NEWS_NEWS_FEED_ENABLED=false")
		return cmd
	})
}
