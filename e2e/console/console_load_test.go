package console_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/chromium"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

var (
	flagQueues = flag.Int("pq.queues", 0, "queues of a pqd, to tell what they cost; 0: none")
	flagItems  = flag.Int("pq.items", 1_000_000, "items of one of them")
)

// transactions matches the counters of the store's transactions, by kind.
var transactions = regexp.MustCompile(`(?m)^pq_transaction_seconds_count\{[^}]*\} (\d+)$`)

// load is a pqd with many queues and items, and pages that look at it.
type load struct {
	*testing.T
	*testenv.Process
}

// fill makes the queues, each with an item, and the items of a large one.
func (l *load) fill(queues, items int) {
	l.Helper()
	began := time.Now()
	c, err := client.New(l.Connect(l.T))
	if err != nil {
		l.Fatal(err)
	}
	var sent []*client.Future
	for i := range queues {
		f, err := c.Queue(fmt.Sprintf("queue-%06d", i)).PushAsync(l.Context(), []byte("x"), client.WithoutMsgID())
		if err != nil {
			l.Fatal(err)
		}
		if sent = append(sent, f); len(sent) == 1000 || i == queues-1 {
			for _, f := range sent {
				if _, err := f.Result(); err != nil {
					l.Fatal(err)
				}
			}
			sent = sent[:0]
		}
	}
	bundle := make([]client.NewItem, client.MaxMany)
	for done := 0; done < items; done += len(bundle) {
		for i := range bundle {
			bundle[i] = client.NewItem{Payload: fmt.Appendf(nil, `{"document":%d,"task":"index","of":"a customer with a name of some length"}`, done+i),
				Options: []client.PushOption{client.Priority(int64(i % 100)), client.WithoutMsgID()}}
		}
		if _, err := c.Queue("large").PushMany(l.Context(), bundle...); err != nil {
			l.Fatal(err)
		}
	}
	l.Logf("%d queues, and %d items in one more, after %s", queues, items, time.Since(began).Round(time.Second))
}

// took is the median of some requests, each of which must be answered within a second.
func (l *load) took(what, path string) {
	l.Helper()
	var all []time.Duration
	for range 9 {
		began := time.Now()
		if code, body := pqd.Get(l.T, l.HTTP+path); code != http.StatusOK {
			l.Fatalf("%s: %d %s", path, code, body)
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	l.Logf("%s: %s, at most %s", what, all[4].Round(100*time.Microsecond), all[8].Round(100*time.Microsecond))
	if all[8] > time.Second {
		l.Errorf("%s took %s: expected up to a second", what, all[8])
	}
}

// measure tells what pages cost for some seconds. Each page has the streams of a view.
func (l *load) measure(what string, pages [][]string) {
	l.Helper()
	ctx, leave := context.WithCancel(l.Context())
	defer leave()
	for _, paths := range pages {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.HTTP+"/v1/watch?"+url.Values{"path": paths}.Encode(), nil)
		if err != nil {
			l.Fatal(err)
		}
		stream, err := http.DefaultClient.Do(request)
		if err != nil {
			l.Fatal(err)
		}
		defer stream.Body.Close()
		if stream.StatusCode != http.StatusOK {
			l.Fatalf("%s: %s", what, stream.Status)
		}
		go func() { _, _ = io.Copy(io.Discard, stream.Body) }() // until the measurement ends
	}
	<-time.After(2 * time.Second) // the first answers
	const length = 10 * time.Second
	count := func() (n, cpu float64) {
		_, page := pqd.Get(l.T, l.HTTP+"/metrics")
		for _, line := range transactions.FindAllStringSubmatch(page, -1) {
			one, err := strconv.ParseFloat(line[1], 64)
			if err != nil {
				l.Fatal(err)
			}
			n += one
		}
		return n, pqd.Metric(l.T, page, "process_cpu_seconds_total")
	}
	before, cpuBefore := count()
	<-time.After(length)
	after, cpuAfter := count()
	l.Logf("%s: %.0f transactions a second, %.2f of one processor", what, (after-before)/length.Seconds(), (cpuAfter-cpuBefore)/length.Seconds())
}

// What the console costs with many queues and a large one: the first view is there within a
// second, and pages cost what they show, however much there is.
func TestConsoleLoad(t *testing.T) {
	if *flagQueues == 0 {
		t.Skip("no -pq.queues")
	}
	l := &load{t, testenv.Daemon(t)}
	l.fill(*flagQueues, *flagItems)
	middle := fmt.Sprintf("queue-%06d", *flagQueues/2)
	l.took("50 queues", "/v1/overview")
	l.took("50 queues, from the middle", "/v1/overview?after="+middle)
	l.took("100 queues", "/v1/overview?limit=100")
	l.took("50 items", "/v1/queues/large/items?limit=50")
	l.took("50 items, from priority 70", "/v1/queues/large/items?limit=50&min=70")
	l.took("1,000 items, as a search reads them", "/v1/queues/large/items?limit=1000")

	overview := func(i int) []string {
		return []string{fmt.Sprintf("/v1/overview?limit=50&after=queue-%06d", i*50%*flagQueues)}
	}
	queue := func(i int) []string {
		at := fmt.Sprintf("/v1/queues/queue-%06d", i%*flagQueues)
		return []string{at, at + "/items?limit=50"}
	}
	many := func(n int, page func(int) []string) (all [][]string) {
		for i := range n {
			all = append(all, page(i))
		}
		return all
	}
	same := func(page func(int) []string) func(int) []string {
		return func(int) []string { return page(7) }
	}
	l.measure("no page", nil)
	l.measure("1 page, 50 queues", many(1, overview))
	l.measure("50 pages, the same 50 queues", many(50, same(overview)))
	l.measure("20 pages, each with 50 others", many(20, overview))
	l.measure("1 page, a queue", many(1, queue))
	l.measure("50 pages, the same queue", many(50, same(queue)))
	l.measure("50 pages, each with a queue of its own", many(50, queue))
	l.measure("50 pages, the queue with many items", many(50, func(int) []string {
		return []string{"/v1/queues/large", "/v1/queues/large/items?limit=50"}
	}))

	b := chromium.Need(t).Drive(t)
	// The page notes when its rows are there; a test would see them late.
	b.RunFirst(`window.drawn = 0; new MutationObserver(() => { if (!window.drawn && document.querySelectorAll("tbody tr").length >= 50) window.drawn = performance.now(); }).observe(document, {subtree: true, childList: true})`)
	for _, view := range []struct{ name, address string }{{"queues", "/"}, {"a queue", "/#/q/large"}} {
		var all []float64
		for range 5 {
			b.Open("about:blank")
			b.Open(l.HTTP + view.address)
			b.Until("the rows are there", "window.drawn > 0")
			ms, err := strconv.ParseFloat(b.Eval("window.drawn"), 64)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, ms)
		}
		t.Logf("the view of %s is drawn %.0f ms after its address was entered, the first time, and %.0f ms as the median of five", view.name, all[0], slices.Sorted(slices.Values(all))[2])
		if slices.Sort(all); all[2] > 1000 {
			t.Errorf("the view of %s took %.0f ms: expected less than a second", view.name, all[2])
		}
	}
	l.Stop(t)
}
