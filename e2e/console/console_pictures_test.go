package console_test

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

var drawPages = flag.Bool("pq.draw", false, "make the pictures of the console in docs/pictures")

// shop is a pqd whose queues look like those of a shop on an ordinary day.
type shop struct {
	*testing.T
	nc *nats.Conn
	c  *client.Client
}

// add pushes items, the first one as if it had waited for some time.
func (s shop) add(queue string, n int, age time.Duration, item func(i int) client.NewItem) {
	s.Helper()
	var items []client.NewItem
	for i := range n {
		items = append(items, item(i))
	}
	from := s.c.Queue("goods-in")
	pushed, err := from.PushMany(s.Context(), items[0])
	if err != nil {
		s.Fatal(err)
	}
	m, err := s.nc.Request("pq.goods-in.get."+pushed[0].ID, nil, testenv.Patience())
	if err != nil {
		s.Fatal(err)
	}
	m.Header.Set("Nats-Time-Stamp", time.Now().Add(-age).UTC().Format(time.RFC3339Nano))
	if answer, err := s.nc.RequestMsg(&nats.Msg{Subject: "pq." + queue + ".import", Header: m.Header, Data: m.Data}, testenv.Patience()); err != nil || !testenv.IsAck(answer) {
		s.Fatal(answer, err)
	}
	for rest := items[1:]; len(rest) > 0; rest = rest[min(len(rest), client.MaxMany):] {
		if _, err := s.c.Queue(queue).PushMany(s.Context(), rest[:min(len(rest), client.MaxMany)]...); err != nil {
			s.Fatal(err)
		}
	}
	if err := from.Delete(s.Context()); err != nil {
		s.Fatal(err)
	}
}

// lease leases items of a queue.
func (s shop) lease(queue string, n int) []*client.Item {
	s.Helper()
	items, err := s.c.Queue(queue).PopBatch(s.Context(), client.Min, n, client.Lease(time.Hour))
	if err != nil {
		s.Fatal(err)
	}
	return items
}

// work pushes items to a queue and pops them, until ctx ends.
func (s shop) work(ctx context.Context, queue string, every time.Duration) {
	q := s.c.Queue(queue)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if _, err := q.Push(ctx, []byte("x"), client.Priority(9)); err != nil {
			continue // it is the end
		}
		_, _ = q.Pop(ctx, client.Min) // which ends with ctx, too
	}
}

// open fills the shop, and has it at work until close is called.
func (s shop) open(p *testenv.Process) (closed func()) {
	s.Helper()
	plain := func(priority int64) func(int) client.NewItem {
		return func(i int) client.NewItem {
			return client.NewItem{Payload: fmt.Appendf(nil, `{"order":%d}`, 20_000+i), Options: []client.PushOption{client.Priority(priority)}}
		}
	}
	s.add("checkout", 12, 400*time.Millisecond, plain(0))
	s.add("encode-video", 1874, 90*time.Minute, plain(5))
	s.add("invoices", 230, 26*time.Hour, plain(1))
	s.add("search-index", 60, time.Second, plain(2))
	s.add("newsletter", 40_210, 150*time.Minute, plain(50))
	s.add("thumbnails", 96, 2*time.Second, plain(3))
	s.add("mail", 412, 7*time.Second, func(i int) client.NewItem {
		return client.NewItem{Payload: fmt.Appendf(nil, `{"to":"customer-%d","template":"receipt"}`, i), Options: []client.PushOption{
			client.Priority(int64(i % 3)), client.Key(tenants[i%7%len(tenants)]), client.Header(nats.Header{"Template": {[]string{"receipt", "reminder", "welcome"}[i%3]}}),
		}}
	})
	patch(s.T, p, "mail/config", `{"fair":"priority","lease":"1m","key_limit":8}`)
	patch(s.T, p, "mail/keys/acme", `{"weight":3}`)
	patch(s.T, p, "mail/keys/delta", `{"rate":"100/1m","limit":2}`)
	patch(s.T, p, "mail/keys/blue-bottle", `{"paused":true}`)
	if code, body := pqd.Ask(s, "POST", p.HTTP+"/v1/queues/newsletter/pause", ""); code != 200 {
		s.Fatal(body)
	}
	s.lease("checkout", 8)
	s.lease("thumbnails", 24)
	s.lease("mail", 14)
	for queue, n := range map[string]int{"encode-video": 3, "mail": 4} {
		for _, item := range s.lease(queue, n) {
			if err := item.Terminate(s.Context(), "no such address"); err != nil {
				s.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithCancel(s.Context())
	var workers sync.WaitGroup
	for queue, every := range map[string]time.Duration{"checkout": 20 * time.Millisecond, "search-index": 35 * time.Millisecond, "thumbnails": 10 * time.Millisecond} {
		workers.Go(func() { s.work(ctx, queue, every) })
	}
	return func() {
		cancel()
		workers.Wait()
	}
}

var tenants = []string{"acme", "blue-bottle", "corner-shop", "delta", "Käserei Huber"}

// The pictures of the console that pages show are made by make pictures.
func TestConsolePictures(t *testing.T) {
	if !*drawPages {
		t.Skip("pictures are made on demand: make pictures")
	}
	p, nc, b := consolePage(t, "PQ_CONSOLE=admin")
	c, err := client.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	defer shop{t, nc, c}.open(p)()
	both := func(name string, height int) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			b.Picture(filepath.Join("..", "..", "docs", "pictures", name+"-"+scheme+".webp"), 1280, height, scheme)
		}
	}
	b.Open(p.HTTP + "/")
	b.Until("work is under way", `document.getElementById("state").innerText === "live" && [...document.querySelectorAll("tbody tr")].some((r) => r.innerText.startsWith("thumbnails") && Number(r.children[6].innerText) > 9)`)
	both("queues", 760)
	b.Open(p.HTTP + "/#/q/mail")
	b.Until("items are there", `document.getElementById("state").innerText === "live" && document.querySelectorAll("tbody tr").length === 50`)
	both("queue", 760)
	b.Open(p.HTTP + "/#/q/mail?tab=keys")
	b.Until("keys are there", `document.getElementById("state").innerText === "live" && document.querySelectorAll("tbody tr").length === 5`)
	both("keys", 700)
}
