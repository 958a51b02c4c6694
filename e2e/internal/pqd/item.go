package pqd

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// Listed returns the ids of the items that are ready, in their order.
func Listed(t *testing.T, nc *nats.Conn, queue string) (ids []string) {
	t.Helper()
	for ask := `{"limit":1000}`; ; {
		reply, err := nc.Request("pq."+queue+".list", []byte(ask), testenv.Patience())
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Items []struct{ ID string }
			Next  string
		}
		if err := json.Unmarshal(reply.Data, &page); err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			ids = append(ids, item.ID)
		}
		if page.Next == "" {
			return ids
		}
		ask = fmt.Sprintf(`{"limit":1000,"after":%q}`, page.Next)
	}
}

// PushOnce pushes one item, however often it has to ask.
func PushOnce(t *testing.T, p *testenv.Process, queue, body string) {
	t.Helper()
	nc := p.Connect(t)
	m := nats.NewMsg("pq." + queue + ".push.1")
	m.Data = []byte(body)
	m.Header.Set("Nats-Msg-Id", body)
	testenv.Await(t, body+" is pushed", func() bool {
		reply, err := nc.RequestMsg(m, testenv.Attempt())
		return err == nil && reply.Header.Get("Nats-Service-Error-Code") == ""
	})
}

// PopOnce pops the item with this body, however often it has to ask.
func PopOnce(t *testing.T, nc *nats.Conn, queue, body string) {
	t.Helper()
	m := nats.NewMsg("pq." + queue + ".pop.min")
	m.Header.Set("Nats-Msg-Id", nats.NewInbox())
	testenv.Await(t, body+" is popped", func() bool {
		reply, err := nc.RequestMsg(m, testenv.Attempt())
		return err == nil && string(reply.Data) == body
	})
}
