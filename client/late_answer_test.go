package client_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// leasedItem is the answer with an item under a lease.
func leasedItem(id, fence, token string) *nats.Msg {
	return &nats.Msg{Reply: "pq.jobs.ack.c." + token, Header: nats.Header{"PQ-Id": {id}, "PQ-Fence": {fence}}}
}

// repeatedPop is a client whose second attempt of a pop finds the answers to the first one
// late: they come first, and then those to the second one.
func repeatedPop(t *testing.T, toFirst, toSecond []*nats.Msg) (c *client.Client, settlements <-chan string) {
	t.Helper()
	settled := make(chan string, 100)
	var first string
	pops := 0
	c = forgetful(t, func(m *nats.Msg, _ int) *nats.Msg {
		if strings.Contains(m.Subject, ".ack.") {
			settled <- m.Subject + " " + string(m.Data)
			return nil
		}
		switch pops++; pops {
		case 1:
			first = m.Reply
		case 2:
			send(t, c, first, toFirst)
			send(t, c, m.Reply, toSecond)
		}
		return nil
	})
	return c, settled
}

func send(t *testing.T, c *client.Client, subject string, messages []*nats.Msg) {
	t.Helper()
	for _, m := range messages {
		if err := c.Conn().PublishMsg(&nats.Msg{Subject: subject, Reply: m.Reply, Header: m.Header, Data: m.Data}); err != nil {
			t.Error(err)
		}
	}
}

// A pop that is repeated has the same lease in both answers. So the late answer is the
// pop's answer, too, and giving it back would end the lease of the caller. What else the
// late answer says is out of date.
func TestLateAnswerToAnEarlierAttempt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name              string
		toFirst, toSecond []*nats.Msg
		batch             bool
		want              string
	}{
		{"the item", []*nats.Msg{leasedItem("i", "1", "mine")}, []*nats.Msg{leasedItem("i", "1", "mine"), leasedItem("i", "2", "other")}, false, "i"},
		{"an error", []*nats.Msg{failure("404", "empty")}, []*nats.Msg{leasedItem("i", "1", "mine"), leasedItem("i", "2", "other")}, false, "i"},
		{
			"a part of a batch", []*nats.Msg{leasedItem("i", "1", "mine"), leasedItem("j", "1", "mine-too")},
			[]*nats.Msg{
				leasedItem("i", "1", "mine"), leasedItem("j", "1", "mine-too"), leasedItem("k", "1", "and-mine"),
				{Header: nats.Header{"Status": {"204"}}}, leasedItem("l", "2", "other"),
			}, true, "i j k",
		},
		{
			"a whole batch",
			[]*nats.Msg{
				leasedItem("i", "1", "mine"), leasedItem("j", "1", "mine-too"), leasedItem("k", "1", "and-mine"),
				{Header: nats.Header{"Status": {"204"}}},
			},
			[]*nats.Msg{leasedItem("l", "2", "other")}, true, "i j k",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pops, settlements := repeatedPop(t, c.toFirst, c.toSecond)
			q, o := pops.Queue("jobs"), []client.PopOption{client.Lease(time.Hour), client.Repeatable()}
			var items []*client.Item
			var err error
			if c.batch {
				items, err = q.PopBatch(t.Context(), client.Min, 3, o...)
			} else {
				items = make([]*client.Item, 1)
				items[0], err = q.Pop(t.Context(), client.Min, o...)
			}
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, item := range items {
				ids = append(ids, item.ID)
			}
			if got := strings.Join(slices.Sorted(slices.Values(ids)), " "); got != c.want {
				t.Errorf("popped %q, expected %q", got, c.want)
			}
			select {
			case got := <-settlements:
				if got != "pq.jobs.ack.c.other +BACK" {
					t.Errorf("published %s, expected to give back the lease that the caller has not got", got)
				}
			case <-testenv.Late():
				t.Error("the other lease was not given back")
			}
		})
	}
}
