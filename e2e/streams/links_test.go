package streams_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
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

// A queue of one pqd becomes one of another while both are killed: each item once, in order.
func TestLinkBesideKills(t *testing.T) {
	t.Parallel()
	edge := testenv.Daemon(t, "PQ_PREFIX=edge7")
	setting, _ := remotes(t, map[string]any{"edge": map[string]any{"url": edge.URL, "queues": map[string]any{"edge7.orders": []string{"jobs"}}}})
	hub := testenv.Daemon(t, setting)
	atEdge, atHub := connect(t, edge.URL), connect(t, hub.URL)
	var about struct {
		StoreID string `json:"store_id"`
	}
	asked(t, atHub, "pq._sys.info", "", &about)
	var link protocol.Link
	asked(t, atEdge, "edge7.orders.admin.link.hub", fmt.Sprintf(`{"to":%q}`, about.StoreID), &link)
	giver, err := client.New(atEdge, client.Prefix("edge7"))
	if err != nil {
		t.Fatal(err)
	}
	n := cmp.Or(*flagMessages, 3000)
	for first := 1; first <= n; first += 500 {
		var items []client.NewItem
		for i := first; i < min(first+500, n+1); i++ {
			items = append(items, client.NewItem{Payload: []byte(strconv.Itoa(i))})
		}
		if _, err := giver.Queue("orders").PushMany(t.Context(), items...); err != nil {
			t.Fatal(err)
		}
	}
	queue := jobs(t, hub.URL)
	var source client.Source
	asked(t, atHub, "pq.jobs.admin.source.edge", `{"remote":"edge","queue":"edge7.orders","link":"hub","batch":20}`, &source)
	kills := cmp.Or(*pqd.Kills, 6)
	moved := func(least int) {
		t.Helper()
		testenv.Await(t, fmt.Sprint(least, " items have moved"), func() bool {
			s, err := queue.Source(t.Context(), "edge")
			return err == nil && s.Counts.Delivered >= int64(least)
		})
	}
	for i := range kills {
		moved(n * i / kills)
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
	moved(n)
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
	testenv.Await(t, "the giver has nothing any more", func() bool {
		asked(t, atEdge, "edge7.orders.admin.link.hub", "", &link)
		return link.Given == int64(n) && link.Held == 0
	})
}
