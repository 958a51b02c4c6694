package bridge_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
)

// A bridge that sheds load refuses a push on inboxes only, like every request.
func TestSheddingAnswersInboxesOnly(t *testing.T) {
	t.Parallel()
	c := serve(t)
	refuse := func(reply string) {
		t.Helper()
		if err := bridge.RefuseUnread(c.env.Bridge, c.env.Store.ID(), &nats.Msg{Subject: "pq.jobs.push", Reply: reply}); err != nil {
			t.Fatal(err)
		}
	}
	heard := c.hear(">")
	inbox := c.listen()
	if err := c.Flush(); err != nil { // before the bridge publishes on its own connection
		t.Fatal(err)
	}
	for _, reply := range []string{"", "orders.new", "pq.safe.admin.purge", "_INBOXES.x", "_INBOX." + c.env.Store.ID() + ".take.jobs"} {
		refuse(reply)
	}
	refuse(inbox.inbox)
	if m := c.next(inbox); m.Header.Get("Nats-Service-Error-Code") != "503" || len(m.Data) > 0 {
		t.Errorf("answer %v, %q: expected 503 and no body", m.Header, m.Data)
	}
	// The bridge has published in this order, and on one connection.
	for {
		m := c.next(heard)
		if m.Subject == inbox.inbox {
			break
		}
		if !strings.HasPrefix(m.Subject, "pq.jobs.event.error") {
			t.Errorf("heard %v on %s", m.Header, m.Subject)
		}
	}
}
