package streams_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// asked asks until somebody serves it, and reads the answer.
func asked(t *testing.T, nc *nats.Conn, subject, body string, answer any) {
	t.Helper()
	m, err := pqd.UntilServed(nc, &nats.Msg{Subject: subject, Data: []byte(body)})
	if err == nil {
		err = json.Unmarshal(m.Data, answer)
	}
	if err != nil {
		t.Fatalf("%s: %v, %v", subject, m, err)
	}
}

// linked are two pqd with a link, whose queue orders is to become the queue jobs of the other one.
type linked struct {
	*testing.T
	edge, hub     *testenv.Process
	atEdge, atHub *nats.Conn
	giver, taker  *client.Queue
}

// embedded is the usual store.
func embedded() string { return "PQ_STORE=local:pq-data" }

// linkPQD starts them. between returns the URL by which the hub reaches the edge's, store the setting of the store of one of them.
func linkPQD(t *testing.T, between func(edge string) string, store func() string) *linked {
	t.Helper()
	l := &linked{T: t, edge: testenv.Daemon(t, "PQ_PREFIX=edge7", store())}
	setting, _ := remotes(t, map[string]any{"edge": map[string]any{"url": between(l.edge.URL), "queues": map[string]any{"edge7.orders": []string{"jobs"}}}})
	l.hub = testenv.Daemon(t, setting, store())
	l.atEdge, l.atHub = connect(t, l.edge.URL), connect(t, l.hub.URL)
	var about struct {
		StoreID string `json:"store_id"`
	}
	asked(t, l.atHub, "pq._sys.info", "", &about)
	var link protocol.Link
	asked(t, l.atEdge, "edge7.orders.admin.link.hub", fmt.Sprintf(`{"to":%q}`, about.StoreID), &link)
	giver, err := client.New(l.atEdge, client.Prefix("edge7"))
	if err != nil {
		t.Fatal(err)
	}
	l.giver, l.taker = giver.Queue("orders"), jobs(t, l.hub.URL)
	return l
}

// push pushes items that are made of their numbers.
func (l *linked) push(n int, payload func(i int) []byte) {
	l.Helper()
	for first := 1; first <= n; first += 500 {
		var items []client.NewItem
		for i := first; i < min(first+500, n+1); i++ {
			items = append(items, client.NewItem{Payload: payload(i)})
		}
		if _, err := l.giver.PushMany(l.Context(), items...); err != nil {
			l.Fatal(err)
		}
	}
}

// begin makes the source; more are fields of it.
func (l *linked) begin(more string) {
	l.Helper()
	var source client.Source
	asked(l.T, l.atHub, "pq.jobs.admin.source.edge", `{"remote":"edge","queue":"edge7.orders","link":"hub"`+more+`}`, &source)
}

// moved waits until the taker has so many items.
func (l *linked) moved(least int) {
	l.Helper()
	testenv.Await(l.T, fmt.Sprint(least, " items have moved"), func() bool {
		s, err := l.taker.Source(l.Context(), "edge")
		return err == nil && s.Counts.Delivered >= int64(least)
	})
}

// ends waits until the giver has nothing any more.
func (l *linked) ends(given int) {
	l.Helper()
	testenv.Await(l.T, "the giver has nothing any more", func() bool {
		var link protocol.Link
		asked(l.T, l.atEdge, "edge7.orders.admin.link.hub", "", &link)
		return link.Given == int64(given) && link.Held == 0
	})
}

// A link over a hundred milliseconds is not much slower than its round trips. The campaign says how fast it is.
func TestLinkOverADistance(t *testing.T) {
	t.Parallel()
	const trip, least = 100 * time.Millisecond, 4000 // items a second
	l := linkPQD(t, func(edge string) string {
		far := testenv.NewProxy(t, edge)
		far.Distance(trip / 2)
		return far.URL()
	}, embedded)
	n := cmp.Or(*flagMessages, 1500)
	l.push(n, func(i int) []byte { return fmt.Appendf(nil, "%04d%s", i, strings.Repeat("x", 1020)) })
	begun := time.Now()
	l.begin("")
	l.moved(n)
	took := time.Since(begun)
	l.ends(n)
	rate := float64(n) / took.Seconds()
	t.Logf("%d items of 1 KiB in %s: %.0f a second", n, took.Round(time.Millisecond), rate)
	if *flagMessages >= 50_000 && rate < least { // of fewer the first batches are most
		t.Errorf("%.0f items a second, expected %d", rate, least)
	}
	trips := (n + 999) / 1000 // a batch has up to 1,000 items
	if fastest := time.Duration(trips) * trip; took < fastest {
		t.Errorf("it took %s, and %d round trips take %s: the distance is none", took, trips, fastest)
	}
}

// A queue of one pqd becomes one of another while both are killed: each item once, in order.
func TestLinkBesideKills(t *testing.T) {
	nightly.Only(t, "fdbpq has links through crashes")
	t.Parallel()
	linkPQD(t, func(edge string) string { return edge }, embedded).besideKills()
}

func (l *linked) besideKills() {
	t := l.T
	edge, hub, queue := l.edge, l.hub, l.taker
	n := cmp.Or(*flagMessages, 3000)
	l.push(n, func(i int) []byte { return strconv.AppendInt(nil, int64(i), 10) })
	l.begin(`,"batch":20`)
	kills := cmp.Or(*pqd.Kills, 6)
	for i := range kills {
		l.moved(n * i / kills)
		if i%3 < 2 {
			edge.Kill(t)
		}
		if i%3 > 0 {
			hub.Kill(t)
			hub.Start(t)
		}
		if i%3 < 2 {
			edge.Start(t)
		}
	}
	l.moved(n)
	for next := 1; next <= n; {
		items, err := queue.PopBatch(t.Context(), client.Min, 500, client.Repeatable())
		if err != nil {
			t.Fatalf("item %d: %v", next, err)
		}
		for _, item := range items {
			if string(item.Payload) != strconv.Itoa(next) || item.Source == nil || item.Source.Name != "edge" || item.Source.ID == "" {
				t.Fatalf("item %q, from %+v, expected %d", item.Payload, item.Source, next)
			}
			next++
		}
	}
	if item, err := queue.Pop(t.Context(), client.Min); !errors.Is(err, client.ErrEmpty) {
		t.Errorf("one more item: %v, %v", item, err)
	}
	l.ends(n)
}
