package versions_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// A queue of one store becomes that of another one by a link, while each is served by the earlier program and this one in
// turns: each item comes once, in order.
func TestVersionsOfLinks(t *testing.T) {
	rounds(t, func(t *testing.T, x *turns) {
		const items, changes = 2000, 8
		programs := []string{x.program(), x.program()}
		edge := testenv.DaemonOf(t, programs[0], "PQ_PREFIX=edge7")
		setting := filepath.Join(t.TempDir(), "remotes.json")
		pqd.Write(t, setting, fmt.Sprintf(`{"edge":{"url":%q,"queues":{"edge7.orders":["jobs"]}}}`, edge.URL))
		hub := testenv.DaemonOf(t, programs[1], "PQ_REMOTES="+setting)
		both := []*testenv.Process{edge, hub}
		atEdge, atHub := reconnecting(t, edge.URL), reconnecting(t, hub.URL)
		giver, taker := queueOf(t, atEdge, "edge7", "orders"), queueOf(t, atHub, "pq", "jobs")
		var about struct {
			StoreID string `json:"store_id"`
		}
		ask(t, atHub, "pq._sys.info", "", &about)
		ask(t, atEdge, "edge7.orders.admin.link.hub", fmt.Sprintf(`{"to":%q}`, about.StoreID), new(protocol.Link))
		for first := 0; first < items; first += 500 {
			var some []client.NewItem
			for i := range 500 {
				some = append(some, client.NewItem{Payload: []byte(strconv.Itoa(first + i))})
			}
			if _, err := giver.PushMany(t.Context(), some...); err != nil {
				t.Fatal(err)
			}
		}
		ask(t, atHub, "pq.jobs.admin.source.edge", `{"remote":"edge","queue":"edge7.orders","link":"hub","batch":20}`, new(protocol.Source))
		moved := func(least int) {
			testenv.Await(t, fmt.Sprint(least, " items have moved"), func() bool {
				s, err := taker.Source(t.Context(), "edge")
				return err == nil && s.Counts.Delivered >= int64(least)
			})
		}
		for i := range changes {
			moved(items * i / changes)
			one := x.random.IntN(2)
			if x.random.IntN(3) == 0 {
				x.counts["stops"]++
				both[one].Stop(t)
			} else {
				x.counts["kills"]++
				both[one].Kill(t)
			}
			x.check(t, both[one].Dir)
			programs[one] = x.next(programs[one])
			both[one].Runs(programs[one])
			both[one].Start(t)
		}
		moved(items)
		expectInOrder(t, taker, items)
		testenv.Await(t, "the giver has nothing any more", func() bool {
			var link protocol.Link
			ask(t, atEdge, "edge7.orders.admin.link.hub", "", &link)
			return link.Given == items && link.Held == 0
		})
		x.counts["items of links"] += items
		for _, p := range both {
			p.Stop(t)
			x.check(t, p.Dir)
		}
	})
}

func reconnecting(t *testing.T, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(pqd.ReconnectWait))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func queueOf(t *testing.T, nc *nats.Conn, prefix, queue string) *client.Queue {
	t.Helper()
	c, err := client.New(nc, client.Prefix(prefix), client.Timeout(testenv.Most))
	if err != nil {
		t.Fatal(err)
	}
	return c.Queue(queue)
}

// ask asks until somebody serves it, and reads the answer.
func ask(t *testing.T, nc *nats.Conn, subject, body string, answer any) {
	t.Helper()
	m, err := pqd.UntilServed(nc, &nats.Msg{Subject: subject, Data: []byte(body)})
	if err == nil {
		err = json.Unmarshal(m.Data, answer)
	}
	if err != nil || code(m) != "" {
		t.Fatalf("%s: %v, %v", subject, m, err)
	}
}

// expectInOrder pops all items of a queue, which are their numbers.
func expectInOrder(t *testing.T, queue *client.Queue, items int) {
	t.Helper()
	for next := 0; next < items; {
		some, err := queue.PopBatch(t.Context(), client.Min, 500, client.Repeatable())
		if err != nil {
			t.Fatalf("item %d: %v", next, err)
		}
		for _, item := range some {
			if string(item.Payload) != strconv.Itoa(next) {
				t.Fatalf("item %q, expected %d", item.Payload, next)
			}
			next++
		}
	}
	if item, err := queue.Pop(t.Context(), client.Min); !errors.Is(err, client.ErrEmpty) {
		t.Errorf("one more item: %v, %v", item, err)
	}
}
