package gateway

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

func TestSources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hub := testenv.NATS(t, func(o *server.Options) { o.JetStream, o.StoreDir, o.JetStreamMaxStore = true, dir, 1<<30 })
	js, err := jetstream.New(hub.Connect(t), jetstream.WithDefaultTimeout(testenv.Patience()))
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.*"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"one", "two"} {
		if _, err := js.Publish(t.Context(), "orders.eu", []byte(id), jetstream.WithMsgID(id)); err != nil {
			t.Fatal(err)
		}
	}
	s := openAt(t, testenv.Bridge(t, bridge.Options{Remotes: func() map[string]bridge.Remote {
		return map[string]bridge.Remote{"hub": {
			Connect: func(o ...nats.Option) (*nats.Conn, error) { return nats.Connect(hub.URL(), o...) },
			Read:    map[string][]string{"ORDERS": {"jobs"}},
		}}
	}}))
	const all, path = "/v1/queues/jobs/sources", "/v1/queues/jobs/sources/orders"
	var made, paused, shown protocol.Source
	if s.ok(&made, "PATCH", path, `{"remote":"hub","stream":"ORDERS","paused":true}`); made.State != protocol.SourcePaused || made.Batch != 512 || string(made.Start) != `"first"` {
		t.Errorf("made %+v", made)
	}
	s.ok(nil, "POST", path+"/resume", "")
	popped := func(want string, seq uint64) {
		t.Helper()
		var item shownItem
		s.ok(&item, "POST", "/v1/queues/jobs/pop?wait=1m", "")
		if of := item.Source; *item.Payload != want || of == nil || of.Name != "orders" || of.Subject != "orders.eu" ||
			of.Seq != seq || of.MsgID != want || time.Since(of.Time) > testenv.Patience() || len(item.Headers) != 0 {
			t.Errorf("popped %+v of %+v, expected message %d, %s", item, of, seq, want)
		}
	}
	popped("one", 1)
	popped("two", 2)
	if s.ok(&shown, "GET", path, ""); shown.Seq != 2 || shown.Counts.Delivered != 2 {
		t.Errorf("shown %+v", shown)
	}
	if s.ok(&paused, "POST", path+"/pause", ""); !paused.Paused {
		t.Errorf("paused %+v", paused)
	}
	s.ok(nil, "POST", path+"/resume", `{"from_seq":2}`)
	popped("two", 2)
	s.refused(400, "there is no poisoned message to skip", "POST", path+"/resume", `{"skip":true}`)

	s.ok(nil, "PATCH", all+"/others", `{"remote":"hub","stream":"ORDERS","paused":true}`)
	var first, second protocol.SourcesPage
	s.ok(&first, "GET", all+"?limit=1", "")
	if s.ok(&second, "GET", all+"?after="+first.Next, ""); first.Next != "orders" || len(second.Sources) != 1 || second.Sources[0].Name != "others" || second.Next != "" {
		t.Errorf("pages %+v and %+v", first, second)
	}
	var gone protocol.SourceNamed
	if s.ok(&gone, "DELETE", path, ""); gone != (protocol.SourceNamed{Queue: "jobs", Name: "orders"}) {
		t.Errorf("deleted %+v", gone)
	}
	if e := s.refused(404, "orders", "GET", path, ""); e.Reason != protocol.ReasonUnknown {
		t.Errorf("%+v", e)
	}
}
