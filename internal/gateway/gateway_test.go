package gateway

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.yaml.in/yaml/v3"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// shownItem is an item of an answer.
type shownItem struct {
	protocol.Item
	Pending     *int64
	Backoff     string    `json:"backoff"`
	Schedule    string    `json:"schedule"`
	ScheduledAt time.Time `json:"scheduled_at"`
}

// The life of items, from a push to an acknowledgement, in all the ways there are.
func TestItems(t *testing.T) {
	t.Parallel()
	s := open(t)
	var pushed protocol.PushResponse
	s.ok(&pushed, "POST", "/v1/queues/jobs/push?priority=5&header=Season:%20autumn&header=season:spring&header=Season:winter&ttl=1h&msg_id=a", "read the news")
	if pushed.Stream != "jobs" || pushed.Priority != 5 || pushed.ID == "" || pushed.Duplicate {
		t.Errorf("%+v", pushed)
	}
	var again protocol.PushResponse
	if s.ok(&again, "POST", "/v1/queues/jobs/push?priority=5&msg_id=a", "read the news"); !again.Duplicate || again.ID != pushed.ID {
		t.Errorf("the same id again: %+v", again)
	}
	s.ok(nil, "POST", "/v1/queues/jobs/push?priority=9", "")
	s.ok(nil, "POST", "/v1/queues/jobs/push?delay=1h", "later")
	if n := s.numbers("jobs"); n != (numbers{Ready: 2, Delayed: 1}) {
		t.Errorf("%+v", n)
	}

	var first, last shownItem
	s.ok(&first, "GET", "/v1/queues/jobs/peek", "")
	s.ok(&last, "GET", "/v1/queues/jobs/peek?end=max", "")
	want := map[string][]string{"Season": {"autumn", "winter"}, "season": {"spring"}}
	if first.ID != pushed.ID || first.Queue != "jobs" || string(first.Bytes()) != "read the news" || fmt.Sprint(first.AllHeaders()) != fmt.Sprint(want) ||
		first.Pushed.IsZero() || first.Ack != "" || first.Pending == nil || last.Priority != 9 || last.Payload == nil || *last.Payload != "" {
		t.Errorf("peeked at %+v and %+v", first, last)
	}
	var both struct{ Items []shownItem }
	if s.ok(&both, "GET", "/v1/queues/jobs/peek?batch=5000&band=6..", ""); len(both.Items) != 1 || both.Items[0].ID != last.ID {
		t.Errorf("a batch of a band: %+v", both)
	}

	// A pop leases, and its settlements do what the protocol says.
	var leased shownItem
	s.ok(&leased, "POST", "/v1/queues/jobs/pop", "")
	if left := time.Until(leased.LeaseExpires); leased.ID != pushed.ID || leased.Ack == "" || leased.Deliveries != 1 || left > time.Minute || left < 0 {
		t.Errorf("popped %+v", leased)
	}
	settle := "/v1/queues/jobs/settle?ack=" + url.QueryEscape(leased.Ack)
	var settled struct {
		Queue   string
		Expires time.Time `json:"lease_expires"`
	}
	if s.ok(&settled, "POST", settle, "+WPI"); settled.Queue != "jobs" || !settled.Expires.After(leased.LeaseExpires) {
		t.Errorf("extended: %+v", settled)
	}
	s.refused(400, "", "POST", settle+"&cost=much", "-NAK 1h")
	s.ok(nil, "POST", settle+"&cost=7", "-NAK 1h")
	s.refused(410, "", "POST", settle, "+WPI")
	if n := s.numbers("jobs"); n != (numbers{Ready: 1, Delayed: 2}) {
		t.Errorf("%+v", n)
	}
	s.ok(&leased, "POST", "/v1/queues/jobs/pop?lease=1h&end=max&msg_id=p", "")
	var repeated shownItem
	if s.ok(&repeated, "POST", "/v1/queues/jobs/pop?lease=1h&end=max&msg_id=p&repeat=true", ""); repeated.ID != leased.ID || repeated.Fence != leased.Fence {
		t.Errorf("the pop again: %+v", repeated)
	}
	s.ok(nil, "POST", "/v1/queues/jobs/settle?ack="+leased.Ack, "")
	s.refused(410, "", "POST", "/v1/queues/jobs/settle?ack="+leased.Ack, "+ACK")
	s.refused(404, "", "POST", "/v1/queues/jobs/pop", "")
	s.refused(408, "", "POST", "/v1/queues/jobs/pop?wait=10ms", "")

	// Without a lease of its own a pop takes the item for good.
	s.ok(nil, "POST", "/v1/queues/plain/push", "x")
	var plain shownItem
	if s.ok(&plain, "POST", "/v1/queues/plain/pop?lease=queue", ""); plain.Ack != "" || s.numbers("plain") != (numbers{}) {
		t.Errorf("a plain pop: %+v", plain)
	}
}

// The overview has the age of the next item, and the age of the oldest item behind more urgent
// ones, as far as it is known, and a word for what keeps items and pushes.
func TestOverview(t *testing.T) {
	t.Parallel()
	s := open(t)
	var pushed protocol.PushResponse
	s.ok(&pushed, "POST", "/v1/queues/elsewhere/push?priority=9", "x")
	old := nats.NewMsg("pq.jobs.import")
	old.Header.Set("PQ-Id", pushed.ID)
	old.Header.Set("Nats-Time-Stamp", time.Now().Add(-time.Hour).Format(time.RFC3339Nano))
	if answer, err := s.env.NATS.Connect(t).RequestMsg(old, testenv.Patience()); err != nil || answer.Header.Get("Nats-Service-Error-Code") != "" {
		t.Fatal(answer, err)
	}
	jobs := func() row {
		t.Helper()
		var page struct{ Queues []row }
		s.ok(&page, "GET", "/v1/overview?prefix=jobs&limit=5000", "")
		if len(page.Queues) != 1 {
			t.Fatalf("%+v", page)
		}
		return page.Queues[0]
	}
	if q := jobs(); q.Oldest < 3600 || q.OfAll < 3600 || q.AtLeast {
		t.Errorf("%+v, expected an hour as both ages", q)
	}
	if q := jobs(); q.Cause != protocol.CauseNoWorkers || q.Refuses != "" {
		t.Errorf("%+v, expected that nobody asks", q)
	}
	s.ok(nil, "POST", "/v1/queues/jobs/push?priority=1", "urgent")
	if q := jobs(); q.Oldest > 600 || q.OfAll < 3600 || q.AtLeast {
		t.Errorf("%+v, expected the urgent item as the next one, and an hour as the oldest age", q)
	}
	for i := range 70 {
		s.ok(nil, "POST", fmt.Sprintf("/v1/queues/jobs/push?priority=%d", -i), "more urgent")
		s.ok(nil, "POST", fmt.Sprintf("/v1/queues/jobs/push?priority=%d", 10+i), "less urgent")
	}
	if q := jobs(); q.OfAll <= 0 || q.OfAll > 600 || !q.AtLeast {
		t.Errorf("%+v, expected a lower bound: the oldest item is behind more priorities than are looked at", q)
	}
	s.ok(nil, "PATCH", "/v1/queues/jobs/config", `{"max_length":2}`)
	s.ok(nil, "POST", "/v1/queues/jobs/pause", "")
	if q := jobs(); q.Cause != protocol.CausePaused || q.Refuses != protocol.ReasonFull {
		t.Errorf("%+v, expected that it is paused, and full", q)
	}
}

// The overview has the holder of the oldest lease where workers take none of the items that are ready, and nothing about it
// where the latest lease began a moment ago.
func TestOverviewOfHeldItems(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	for latest, want := range map[int]string{130: `"cause":"leased","held_for":190,"holder":"vm-7631"`, 30: `"cause":"leased","max_length":0`} {
		told := o.begin(t.Context(), "GET", "/v1/overview", "")
		o.answer(o.next(), &nats.Msg{Data: []byte(`{"queues":["jobs-dead"]}`)})
		o.answer(o.next(), &nats.Msg{Data: fmt.Appendf(nil, `{"queue":"jobs-dead","ready":3,"leased":4,"oldest_lease":190,"latest_lease":%d,"explain":{"cause":"leased","holder":"vm-7631"}}`, latest)})
		if r := <-told; r.code != 200 || !strings.Contains(r.body, want) {
			t.Errorf("the latest lease began %d s ago: %+v, expected %s", latest, r, want)
		}
	}
}

// Items by id, lists, dead letters.
func TestItemsByID(t *testing.T) {
	t.Parallel()
	s := open(t)
	var ids []string
	for i := range 5 {
		var pushed protocol.PushResponse
		s.ok(&pushed, "POST", fmt.Sprintf("/v1/queues/jobs/push?priority=%d&header=N:%d", i, i), fmt.Sprint(i))
		ids = append(ids, pushed.ID)
	}
	var page protocol.Page
	listed := func() (all []string) {
		for _, i := range page.Items {
			all = append(all, i.ID)
		}
		return all
	}
	if s.ok(&page, "GET", "/v1/queues/jobs/items?limit=2&bodies=true", ""); !slices.Equal(listed(), ids[:2]) || page.Next != ids[1] || string(page.Items[1].Body) != "1" {
		t.Errorf("%+v", page)
	}
	page = protocol.Page{}
	if s.ok(&page, "GET", "/v1/queues/jobs/items?after="+ids[0]+"&min=0&max=3&state=ready", ""); !slices.Equal(listed(), ids[1:4]) || page.Next != "" {
		t.Errorf("%+v", page)
	}
	s.ok(nil, "POST", "/v1/queues/jobs/items/"+ids[4]+"/move?priority=-7", "")
	var found shownItem
	if s.ok(&found, "GET", "/v1/queues/jobs/items/"+ids[4], ""); found.Priority != -7 || found.State != "ready" || *found.Payload != "4" || found.Headers["N"][0] != "4" {
		t.Errorf("%+v", found)
	}
	s.ok(nil, "DELETE", "/v1/queues/jobs/items/"+ids[0], "")
	s.refused(404, "has no item", "GET", "/v1/queues/jobs/items/"+ids[0], "")

	// Dead letters, and back.
	var leased shownItem
	s.ok(&leased, "POST", "/v1/queues/jobs/pop", "")
	s.ok(nil, "POST", "/v1/queues/jobs/settle?ack="+leased.Ack, "+TERM no way")
	var dead shownItem
	s.ok(&dead, "GET", "/v1/queues/jobs-dead/peek", "")
	if dead.Dead == nil || dead.Dead.Reason != "no way" || dead.Dead.Origin != "jobs" || dead.Dead.OriginID != ids[4] || dead.Dead.Deliveries != 1 || dead.Dead.At.IsZero() {
		t.Fatalf("%+v", dead)
	}
	var rows struct {
		Queues []struct {
			Queue string
			Ready int64
			Dead  *int64
		}
	}
	if s.ok(&rows, "GET", "/v1/overview", ""); len(rows.Queues) != 2 || rows.Queues[0].Dead == nil ||
		*rows.Queues[0].Dead != 1 || rows.Queues[0].Ready != 3 || rows.Queues[1].Dead != nil {
		t.Errorf("%+v", rows)
	}
	at := "/v1/queues/jobs-dead/items/" + dead.ID + "/requeue"
	s.refused(403, "not of", "POST", at+"?to=others", "")
	s.ok(nil, "PATCH", "/v1/queues/jobs/config", `{"max_length":3}`)
	s.refused(429, "full", "POST", at, "")
	s.ok(nil, "PATCH", "/v1/queues/jobs/config", `{"max_length":0}`)
	var pushed protocol.PushResponse
	s.ok(&pushed, "POST", at, "")
	s.ok(&found, "GET", "/v1/queues/jobs/items/"+pushed.ID, "")
	if found.Priority != -7 || *found.Payload != "4" || found.Headers["N"][0] != "4" || s.numbers("jobs-dead") != (numbers{}) {
		t.Errorf("requeued %+v", found)
	}
	s.refused(404, "", "POST", at, "")
	s.refused(403, "no dead letter", "POST", "/v1/queues/jobs/items/"+pushed.ID+"/requeue", "")
}

// An item shows who holds it, and what came of its leases, also as a dead letter.
func TestHoldersAndAttempts(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.ok(nil, "POST", "/v1/queues/jobs/push", "x")
	s.ok(nil, "POST", "/v1/queues/jobs/push", "y")
	var leased, other shownItem
	s.ok(&leased, "POST", "/v1/queues/jobs/pop?holder=ann", "")
	s.ok(&other, "POST", "/v1/queues/jobs/pop?holder=bob", "")
	var page protocol.Page
	if s.ok(&page, "GET", "/v1/queues/jobs/items?state=leased&holder=bob", ""); len(page.Items) != 1 || page.Items[0].ID != other.ID || page.Items[0].Holder != "bob" {
		t.Errorf("what bob holds: %+v", page)
	}
	at := "/v1/queues/jobs/items/" + leased.ID
	var found shownItem
	if s.ok(&found, "GET", at, ""); found.Holder != "ann" || found.Attempts != 0 {
		t.Errorf("a leased item: %+v", found)
	}
	s.ok(nil, "POST", "/v1/queues/jobs/settle?ack="+leased.Ack, `-NAK {"reason":"the printer is out of ink"}`)
	found = shownItem{}
	if s.ok(&found, "GET", at, ""); found.Holder != "" || found.Attempts != 1 || found.LastAttempts != nil {
		t.Errorf("an item that came back: %+v", found)
	}
	s.ok(&leased, "POST", "/v1/queues/jobs/pop", "")
	s.ok(nil, "POST", "/v1/queues/jobs/settle?ack="+leased.Ack, "+TERM no paper")
	page = protocol.Page{}
	if s.ok(&page, "GET", "/v1/queues/jobs-dead/items?attempts=true", ""); len(page.Items) != 1 {
		t.Fatalf("dead letters: %+v", page)
	}
	found = shownItem{}
	s.ok(&found, "GET", "/v1/queues/jobs-dead/items/"+page.Items[0].ID+"?attempts=true", "")
	for what, attempts := range map[string][]protocol.Attempt{"by its id": found.LastAttempts, "in a list": page.Items[0].LastAttempts} {
		if len(attempts) != 2 || attempts[0].Holder != "ann" || attempts[0].Outcome != protocol.OutcomeNack ||
			attempts[0].Reason != "the printer is out of ink" || attempts[0].Start.IsZero() || attempts[0].End.Before(attempts[0].Start) ||
			attempts[1].N != 2 || attempts[1].Outcome != protocol.OutcomeTerminated || attempts[1].Reason != "no paper" {
			t.Errorf("the attempts of a dead letter %s: %+v", what, attempts)
		}
	}
	if found.Attempts != 2 {
		t.Errorf("the number of the last attempt is %d", found.Attempts)
	}
}

// Queues, their configuration, and what there is around them.
func TestQueues(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, name := range []string{"a", "b1", "b2", "c"} {
		s.ok(nil, "POST", "/v1/queues/"+name+"/push", "x")
	}
	var page protocol.QueuesPage
	if s.ok(&page, "GET", "/v1/queues?limit=2", ""); !slices.Equal(page.Queues, []string{"a", "b1"}) || page.Next != "b1" {
		t.Errorf("%+v", page)
	}
	page = protocol.QueuesPage{}
	if s.ok(&page, "GET", "/v1/queues?prefix=b&after=b1&limit=5000", ""); !slices.Equal(page.Queues, []string{"b2"}) || page.Next != "" {
		t.Errorf("%+v", page)
	}
	var config protocol.Config
	if s.ok(&config, "PATCH", "/v1/queues/a/config", `{"max_length":1,"lease":"30s"}`); config.MaxLength != 1 || config.Lease.String() != "30s" {
		t.Errorf("%+v", config)
	}
	config = protocol.Config{}
	if s.ok(&config, "GET", "/v1/queues/a/config", ""); config.MaxLength != 1 {
		t.Errorf("%+v", config)
	}
	r := s.send("POST", "/v1/queues/a/push", "y")
	s.isRefusal(r, 429, "max_length", "a push to a full queue")
	if !strings.Contains(r.body, `"reason":"full"`) {
		t.Errorf("a full queue: %s", r.body)
	}
	s.ok(nil, "POST", "/v1/queues/a/pause", "")
	if r := s.send("POST", "/v1/queues/a/pop", ""); r.code != 404 || !strings.Contains(r.body, `"reason":"paused"`) {
		t.Errorf("a pop of a paused queue: %+v", r)
	}
	s.ok(nil, "POST", "/v1/queues/a/resume", "")
	s.ok(nil, "POST", "/v1/queues/a/pop?lease=queue", "")
	var purged protocol.Purged
	if s.ok(&purged, "POST", "/v1/queues/a/purge", ""); purged.Purged != 1 {
		t.Errorf("%+v", purged)
	}
	s.ok(nil, "DELETE", "/v1/queues/a", "")
	s.refused(404, "no queue a", "GET", "/v1/queues/a", "")
	var system protocol.System
	if s.ok(&system, "GET", "/v1/system", ""); system.StoreID != s.env.Store.ID() {
		t.Errorf("%+v", system)
	}
	var found struct {
		Bridges []struct {
			Started  time.Time
			Metadata map[string]string
		}
	}
	if s.ok(&found, "GET", "/v1/bridges", ""); len(found.Bridges) != 1 || found.Bridges[0].Metadata["store_id"] != s.env.Store.ID() || found.Bridges[0].Started.IsZero() {
		t.Errorf("%+v", found)
	}
	s.refused(400, "several pqd", "GET", "/v1/cluster", "")
	s.refused(400, "several pqd", "POST", "/v1/cluster/step-down?node=x", "")
	s.refused(400, "several pqd", "POST", "/v1/cluster/replace?old=x&new=y", "")
	if r := s.send("GET", "/v1/access", ""); r.body != `{"access":"admin","prefix":"pq"}`+"\n" {
		t.Errorf("%+v", r)
	}
	if r := s.send("GET", "/v1/openapi.yaml", ""); r.code != 200 || r.body != string(openAPI) {
		t.Errorf("%+v", r)
	}
}

// What is wrong is refused with a text that says what was expected, and nothing is done.
func TestMalformed(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, c := range []struct {
		code               int
		method, path, body string
		says               string
		header             []string
	}{
		{404, "GET", "/v1/", "", "/v1/openapi.yaml", nil},
		{404, "GET", "/v1/queues/", "", "/v1/openapi.yaml", nil},
		{404, "POST", "/v1/queues/jobs/push/", "", "/v1/openapi.yaml", nil},
		{404, "GET", "/v1/queues/jobs/items/x/y", "", "/v1/openapi.yaml", nil},
		{405, "GET", "/v1/queues/jobs/push", "", "expected POST", nil},
		{405, "PUT", "/v1/queues/jobs/config", "", "expected GET or PATCH", nil},
		{405, "OPTIONS", "/v1/queues", "", "expected GET", nil},
		{400, "POST", "/v1/queues/a.b/push", "", "queue name", nil},
		{400, "POST", "/v1/queues/a%2Fb/push", "", "queue name", nil},
		{400, "POST", "/v1/queues/%3E/push", "", "queue name", nil},
		{400, "GET", "/v1/queues/_sys", "", "queue name", nil},
		{400, "POST", "/v1/queues/jobs/push?priority=high", "", "priority", nil},
		{400, "POST", "/v1/queues/jobs/push?priority=", "", "priority is empty", nil},
		{400, "POST", "/v1/queues/jobs/push?priority=1&priority=2", "", "occurs 2 times", nil},
		{400, "POST", "/v1/queues/jobs/push?prio=1", "", `"prio": expected priority, header`, nil},
		{400, "POST", "/v1/queues/jobs/push?delay=soon", "", "a duration", nil},
		{400, "POST", "/v1/queues/jobs/push?%zz", "", "invalid URL escape", nil},
		{400, "POST", "/v1/queues/jobs/push?header=Season", "", "<name>:<value>", nil},
		{400, "POST", "/v1/queues/jobs/push?header=Sea son:x", "", "<name>:<value>", nil},
		{400, "POST", "/v1/queues/jobs/push?header=A%0D%0AB:x", "", "<name>:<value>", nil},
		{400, "POST", "/v1/queues/jobs/push?header=A:x%0D%0APQ-Priority:1", "", "more than one line", nil},
		{400, "POST", "/v1/queues/jobs/push?header=pq-priority:1", "", "belongs to the protocol", nil},
		{400, "POST", "/v1/queues/jobs/push?header=Nats-Trace-Dest:x", "", "belongs to the protocol", nil},
		{400, "POST", "/v1/queues/jobs/push?header=Status:503", "", "belongs to the protocol", nil},
		{400, "POST", "/v1/queues/jobs/push?msg_id=a%0D%0APQ-Priority:1", "", "msg_id is", nil},
		{400, "POST", "/v1/queues/jobs/push?msg_id=a%0A", "", "expected one line", nil},
		{400, "POST", "/v1/queues/jobs/push?unique=%20a", "", "without spaces at its ends", nil},
		{400, "POST", "/v1/queues/jobs/push?key=a%09", "", "without spaces at its ends", nil},
		{400, "POST", "/v1/queues/jobs/push?key=" + strings.Repeat("k", 129), "", "allowed are 128", nil},
		{400, "POST", "/v1/queues/jobs/push?header=PQ-Key:a", "", "belongs to the protocol", nil},
		{400, "POST", "/v1/queues/jobs/pop?msg_id=a%0Db", "", "expected one line", nil},
		{400, "POST", "/v1/queues/jobs/push", "", "parameters in the URL", []string{"PQ-Priority", "1"}},
		{400, "POST", "/v1/queues/jobs/push", "", "parameters in the URL", []string{"Nats-Msg-Id", "1"}},
		{400, "POST", "/v1/queues/jobs/pop", "all", "expected none", nil},
		{400, "POST", "/v1/queues/jobs/pop?end=middle", "", "expected min or max", nil},
		{400, "POST", "/v1/queues/jobs/pop?batch=0", "", "batch is 0", nil},
		{400, "POST", "/v1/queues/jobs/pop?lease=0s", "", "lease is 0s", nil},
		{400, "POST", "/v1/queues/jobs/pop?wait=soon", "", "wait is", nil},
		{400, "GET", "/v1/queues/jobs/peek?lease=1m", "", "expected end, batch, band, wait", nil},
		{400, "POST", "/v1/queues/jobs/settle", "+ACK", "parameter ack", nil},
		{400, "POST", "/v1/queues/jobs/settle?ack=jobs", "+ACK", "starts with", nil},
		{400, "POST", "/v1/queues/jobs/settle?ack=pq.jobs.push", "", "popped from queue jobs", nil},
		{400, "POST", "/v1/queues/jobs/settle?ack=pq.others.ack.a.b", "", "popped from queue jobs", nil},
		{400, "POST", "/v1/queues/jobs/settle?ack=pq.jobs.ack.a.b", "+NXT", "not served over HTTP", nil},
		{400, "POST", "/v1/queues/jobs/settle?ack=pq.jobs.ack.a.b", "+ACK", "", nil},
		{400, "GET", "/v1/queues/jobs/items?limit=0", "", "limit is 0", nil},
		{400, "GET", "/v1/queues/jobs/items?limit=x", "", "an integer", nil},
		{400, "GET", "/v1/queues/jobs/items?state=done", "", "leased", nil},
		{400, "GET", "/v1/queues/jobs/items?bodies=yes", "", "true or false", nil},
		{400, "GET", "/v1/queues/jobs/items?attempts=yes", "", "attempts is \"yes\": expected true or false", nil},
		{400, "GET", "/v1/queues/jobs/items/x?attempts=1", "", "true or false", nil},
		{400, "GET", "/v1/queues?total=yes", "", "true or false", nil},
		{400, "POST", "/v1/queues/jobs/pop?holder=%20a", "", "without spaces at its ends", nil},
		{400, "POST", "/v1/queues/jobs/pop?holder=" + strings.Repeat("w", 129), "", "holder is", nil},
		{400, "POST", "/v1/queues/jobs/pop?holder=a%01b", "", "holder is", nil},
		{400, "POST", "/v1/queues/jobs/pop?holder=", "", "holder is empty", nil},
		{400, "GET", "/v1/queues/jobs/items?holder=w7", "", "expected state to be", nil},
		{400, "GET", "/v1/queues/jobs/items?attempts=1", "", "attempts is \"1\": expected true or false", nil},
		{400, "GET", "/v1/queues/jobs/items/x?attempts=all", "", "expected true or false", nil},
		{400, "POST", "/v1/queues/jobs/settle?ack=pq.jobs.ack.a.b", "-NAK {}x", "", nil},
		{400, "POST", "/v1/queues/jobs/items/x/revoke", "", "", nil},
		{400, "POST", "/v1/queues/jobs/items/FBUBAX_Af0DSUlItAA/revoke?fence=0", "", "fence is 0", nil},
		{400, "POST", "/v1/queues/jobs/items/FBUBAX_Af0DSUlItAA/revoke?fence=x", "", "an integer", nil},
		{400, "POST", "/v1/queues/jobs/items/FBUBAX_Af0DSUlItAA/revoke?delay=soon", "", "delay is", nil},
		{400, "POST", "/v1/queues/jobs/items/FBUBAX_Af0DSUlItAA/revoke?reason=" + strings.Repeat("r", 1025), "", "reason has 1025 bytes", nil},
		{400, "POST", "/v1/queues/jobs/items/FBUBAX_Af0DSUlItAA/revoke", "{}", "expected none", nil},
		{400, "GET", "/v1/queues/jobs/schedules?limit=0", "", "limit is 0", nil},
		{400, "GET", "/v1/queues/jobs/schedules?after=a.b", "", "a.b", nil},
		{400, "GET", "/v1/queues/jobs/schedules/a.b", "", "schedule", nil},
		{400, "PATCH", "/v1/queues/jobs/schedules/a", "", "the fields to change", nil},
		{400, "PATCH", "/v1/queues/jobs/schedules/a", "[]", "a JSON object", nil},
		{400, "PATCH", "/v1/queues/jobs/schedules/a", `{"spec":"often"}`, "often", nil},
		{400, "PATCH", "/v1/queues/jobs/schedules/a", `{"spec":"@daily","item":{"headers":{"PQ-Key":"x"}}}`, "PQ-Key", nil},
		{400, "POST", "/v1/queues/jobs/schedules/a/preview", " ", "the fields that the schedule would have", nil},
		{400, "POST", "/v1/queues/jobs/schedules/a/preview", `{"spec":"61 * * * *"}`, "61", nil},
		{400, "POST", "/v1/queues/jobs/schedules/a/resume?from=then", "", "from is", nil},
		{400, "POST", "/v1/queues/jobs/schedules/a/run?msg_id=a%0Db", "", "expected one line", nil},
		{400, "POST", "/v1/queues/jobs/schedules/a/run", "{}", "expected none", nil},
		{400, "GET", "/v1/queues/jobs/sources?limit=0", "", "limit is 0", nil},
		{400, "GET", "/v1/queues/jobs/sources?after=a.b", "", "a.b", nil},
		{400, "GET", "/v1/queues/jobs/sources/a.b", "", "source", nil},
		{400, "PATCH", "/v1/queues/jobs/sources/a", " ", "the fields to change", nil},
		{400, "PATCH", "/v1/queues/jobs/sources/a", "[]", "a JSON object", nil},
		{400, "PATCH", "/v1/queues/jobs/sources/a", `{"remote":"hub"}`, "stream is missing", nil},
		{403, "PATCH", "/v1/queues/jobs/sources/a", `{"remote":"hub","stream":"S"}`, "PQ_REMOTES", nil},
		{400, "POST", "/v1/queues/jobs/sources/a/resume", `{"skip":true,"accept":true}`, "expected one of", nil},
		{400, "POST", "/v1/queues/jobs/sources/a/pause", "{}", "expected none", nil},
		{404, "DELETE", "/v1/queues/jobs/sources/a", "", "", nil},
		{405, "PUT", "/v1/queues/jobs/schedules/a", "", "expected GET or PATCH or DELETE", nil},
		{404, "POST", "/v1/queues/jobs/schedules/a/stop", "", "no such path", nil},
		{400, "POST", "/v1/queues/jobs/items/x/move", "", "priority", nil},
		{400, "PATCH", "/v1/queues/jobs/config", "", "a JSON object", nil},
		{400, "PATCH", "/v1/queues/jobs/config", `{"lease":1}`, "lease", nil},
		{400, "GET", "/v1/watch", "", "1 to 64", nil},
		{400, "GET", "/v1/watch?path=http://elsewhere/v1/queues", "", "such as /v1/queues/jobs", nil},
		{404, "GET", "/v1/watch?path=/metrics", "", "no such path", nil},
		{405, "GET", "/v1/watch?path=/v1/queues/jobs/pop", "", "expected POST", nil},
		{400, "GET", "/v1/watch?path=/v1/watch", "", "an answer at once", nil},
		{400, "GET", "/v1/watch?path=/v1/queues/jobs/peek%3Fwait%3D1m", "", "an answer at once", nil},
		{400, "GET", "/v1/watch?path=/v1/queues/jobs%3Fx%3D1", "", "expected none", nil},
		{413, "POST", "/v1/queues/jobs/push", strings.Repeat("x", 1<<20+1), "up to 1048576 bytes, the NATS server's max_payload", nil},
		{413, "POST", "/v1/queues/jobs/push", strings.Repeat("x", 1<<20-10), "", nil},
		{413, "PATCH", "/v1/queues/jobs/config", strings.Repeat(" ", 64<<10+1), "up to 65536 bytes", nil},
		{413, "PATCH", "/v1/queues/jobs/keys/k", strings.Repeat(" ", 64<<10+1), "up to 65536 bytes", nil},
		{413, "PATCH", "/v1/queues/jobs/sources/s", strings.Repeat(" ", 64<<10+1), "up to 65536 bytes", nil},
		{413, "PATCH", "/v1/queues/jobs/links/l", strings.Repeat(" ", 64<<10+1), "up to 65536 bytes", nil},
		{413, "POST", "/v1/queues/jobs/bulk/move", strings.Repeat(" ", 8<<10+1), "up to 8192 bytes", nil},
		{413, "POST", "/v1/queues/jobs/bulk/remove", strings.Repeat(" ", 8<<10+1), "up to 8192 bytes", nil},
		{413, "PATCH", "/v1/queues/jobs/schedules/s", `{"spec":"@daily"` + strings.Repeat(" ", 64<<10) + "}", "beside its payload has 65", nil},
		{413, "POST", "/v1/queues/jobs/schedules/s/preview", `{"spec":"@daily"` + strings.Repeat(" ", 64<<10) + "}", "allowed are 65536", nil},
		{413, "POST", "/v1/queues/jobs/schedules/s/preview", strings.Repeat(" ", 448<<10+1), "up to 458752 bytes", nil},
	} {
		s.refused(c.code, c.says, c.method, strings.ReplaceAll(c.path, " ", "%20"), c.body, c.header...)
	}
	var page protocol.QueuesPage
	if s.ok(&page, "GET", "/v1/queues", ""); len(page.Queues) != 0 {
		t.Errorf("queues came to be: %v", page.Queues)
	}
}

// Whatever an item holds, its answer is JSON that no browser takes for a page, and the item
// comes back byte by byte.
func TestHostileContent(t *testing.T) {
	t.Parallel()
	s := open(t)
	values := []string{"<script>alert(1)</script>", "\u202e\u2028 right to left", "\x7f\t\x01", `'"&`, "\xff not UTF-8"}
	for _, payload := range []string{"<script>alert(1)</script>", "\x00\x01\x1b[2J\r\n", "\u202egnirts", "\xff\xfe\x80", "", "]]>-->", strings.Repeat("\"<", 400_000)} {
		query := url.Values{}
		for _, value := range values {
			query.Add("header", "X-Mine:"+value)
		}
		s.ok(nil, "POST", "/v1/queues/hostile/push?"+query.Encode(), payload)
		r := s.send("POST", "/v1/queues/hostile/pop?lease=queue", "")
		if kind, sniff := r.header.Get("Content-Type"), r.header.Get("X-Content-Type-Options"); kind != "application/json" || sniff != "nosniff" ||
			!strings.Contains(r.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("a browser could take it for a page: %v %.100s", r.header, r.body)
		}
		if strings.HasPrefix(payload, "<") && !strings.Contains(r.body, `"`+payload+`"`) {
			t.Errorf("people cannot read it: %.200s", r.body)
		}
		var item shownItem
		if err := json.Unmarshal([]byte(r.body), &item); err != nil {
			t.Fatal(err)
		}
		if string(item.Bytes()) != payload || !slices.Equal(item.AllHeaders()["X-Mine"], values) {
			t.Errorf("%.50q came back as %.50q, the headers as %q", payload, item.Bytes(), item.AllHeaders())
		}
	}
	if r := s.send("POST", "/v1/queues/hostile/push", "\xff\x00"); r.code != 200 {
		t.Fatal(r)
	}
	if r := s.send("GET", "/v1/queues/hostile/peek", ""); !strings.Contains(r.body, `"payload_base64":"`+base64.StdEncoding.EncodeToString([]byte("\xff\x00"))) {
		t.Errorf("%s", r.body)
	}
	s.ok(nil, "POST", "/v1/queues/traced/push", "")
	if r := s.send("POST", "/v1/queues/traced/push", "", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"); r.code != 200 {
		t.Fatal(r)
	}
	if r := s.send("GET", "/v1/queues/traced/peek?end=max", ""); !strings.Contains(r.body, `"traceparent":["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]`) {
		t.Errorf("%s", r.body)
	}
}

// The rights of the gateway's NATS user are all that its callers have.
func TestNATSUserWithoutRights(t *testing.T) {
	t.Parallel()
	store, nats1 := testenv.Store(t), testenv.NATS(t, users(
		&server.User{Username: "pqd", Password: "p"},
		&server.User{Username: "viewer", Password: "p", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"pq.jobs.info", "pq.jobs.push.5"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.viewer.>"}},
		}},
	))
	b, err := bridge.Start(t.Context(), nats1.Connect(t, append(bridge.ConnectOptions(nil), nats.UserInfo("pqd", "p"))...),
		store, bridge.Options{Exclusive: testenv.Engines()[0].Exclusive})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Drain(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	g, err := New(Options{Prefix: "pq", Changes: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	s := &site{TB: t, Gateway: g}
	s.url = serve(t, g)
	s.refused(503, "starting", "GET", "/v1/queues/jobs", "")
	g.Connect(nats1.Connect(t, append(g.ConnectOptions(), nats.UserInfo("viewer", "p"), nats.CustomInboxPrefix("_INBOX.viewer"))...))
	s.ok(nil, "POST", "/v1/queues/jobs/push?priority=5", "x")
	s.refused(403, "pq.jobs.push", "POST", "/v1/queues/jobs/push", "x")
	s.refused(403, "pq.jobs.push.4", "POST", "/v1/queues/jobs/push?priority=4", "x")
	s.refused(403, "pq.jobs.pop.min", "POST", "/v1/queues/jobs/pop", "")
	s.refused(403, "pq.others.info", "GET", "/v1/queues/others", "")
	s.refused(403, "pq.jobs.revoke.x", "POST", "/v1/queues/jobs/items/x/revoke", "")
	for _, verb := range []string{"remove", "move", "revoke", "requeue"} {
		s.refused(403, "pq.jobs.admin."+verb, "POST", "/v1/queues/jobs/bulk/"+verb, "{}")
	}
	s.refused(403, "pq.jobs.schedules", "GET", "/v1/queues/jobs/schedules", "")
	s.refused(403, "pq.jobs.schedule.s", "GET", "/v1/queues/jobs/schedules/s", "")
	s.refused(403, "pq.jobs.schedule.s", "POST", "/v1/queues/jobs/schedules/s/preview", "{}")
	s.refused(403, "pq.jobs.admin.schedule.s", "PATCH", "/v1/queues/jobs/schedules/s", "{}")
	for _, verb := range []string{"run", "pause", "resume"} {
		s.refused(403, "pq.jobs.admin.schedule.s."+verb, "POST", "/v1/queues/jobs/schedules/s/"+verb, "")
	}
	s.refused(403, "pq.jobs.admin.schedule.s.delete", "DELETE", "/v1/queues/jobs/schedules/s", "")
	s.refused(403, "pq.jobs.sources", "GET", "/v1/queues/jobs/sources", "")
	s.refused(403, "pq.jobs.admin.source.s", "GET", "/v1/queues/jobs/sources/s", "")
	s.refused(403, "pq.jobs.admin.source.s", "PATCH", "/v1/queues/jobs/sources/s", "{}")
	s.refused(403, "pq.jobs.admin.source.s.delete", "DELETE", "/v1/queues/jobs/sources/s", "")
	for _, verb := range []string{"pause", "resume"} {
		s.refused(403, "pq.jobs.admin.source.s."+verb, "POST", "/v1/queues/jobs/sources/s/"+verb, "")
	}
	s.ok(nil, "GET", "/v1/queues/jobs/history", "")
	s.refused(403, "pq.others.info", "GET", "/v1/queues/others/history", "")
	s.refused(403, "pq._sys.info", "GET", "/v1/history", "")
	if n := s.numbers("jobs"); n.Ready != 1 {
		t.Errorf("%+v", n)
	}
	other, err := New(Options{Prefix: "pq", Changes: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Stop)
	nc := nats1.Connect(t, append(other.ConnectOptions(), nats.UserInfo("viewer", "p"))...)
	other.Connect(nc)
	s.url = serve(t, other)
	s.refused(403, "_INBOX", "GET", "/v1/queues/jobs", "")
	away := nc.StatusChanged(nats.RECONNECTING)
	nats1.Shutdown()
	select {
	case <-away:
	case <-testenv.Late():
		t.Fatal("the connection is still there")
	}
	const text = "NATS is away, nothing was done: try again"
	if told := s.refused(503, text, "GET", "/v1/queues/jobs", ""); told.Description != text {
		t.Errorf("it says %q, expected %q", told.Description, text)
	}
}

// Nothing of the gateway has to be there for its answers: no bridge is an answer too.
func TestNoBridge(t *testing.T) {
	t.Parallel()
	g, err := New(Options{Prefix: "pq"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	g.Connect(testenv.NATS(t).Connect(t, g.ConnectOptions()...))
	s := &site{TB: t, Gateway: g, url: serve(t, g)}
	s.refused(http.StatusServiceUnavailable, "no bridge", "GET", "/v1/queues", "")
	s.refused(http.StatusServiceUnavailable, "no bridge", "GET", "/v1/bridges", "")
	if _, err := New(Options{Prefix: "pq.*"}); err == nil {
		t.Error("a prefix with a wildcard is accepted")
	}
}

// Connections beyond the share of an address are closed at once, until others of it end.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	l := limit(web.Listener, 6).(*limited)
	web.Listener = l
	web.Start()
	t.Cleanup(web.Close)
	answered := func() (net.Conn, error) {
		t.Helper()
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // it may be closed
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		_, err = conn.Read(make([]byte, 100))
		return conn, err
	}
	var conns []net.Conn
	for i := range 3 {
		conn, err := answered()
		if err != nil {
			t.Fatalf("connection %d: %v", i+1, err)
		}
		conns = append(conns, conn)
	}
	if _, err := answered(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection too many: %v", err)
	}
	_ = conns[0].Close()
	(&site{TB: t}).await("the connection has left", func() bool { return l.conns.taken() == 2 })
	if _, err := answered(); err != nil {
		t.Error(err)
	}
	l.conns.mu.Lock()
	defer l.conns.mu.Unlock()
	if n := l.conns.of[here]; n != 3 || len(l.conns.of) != 1 {
		t.Errorf("%v", l.conns.of)
	}
}

// An address is the same, however it is written. Machines have many IPv6 addresses of one
// network.
func TestSourceOf(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.1:1": "192.0.2.1/32", "[::ffff:192.0.2.1]:2": "192.0.2.1/32", "[2001:db8::1]:1": "2001:db8::/64", "[2001:db8:0:0:ffff::1]:1": "2001:db8::/64",
		"[2001:db8:0:1::1]:1": "2001:db8:0:1::/64", "[fe80::1%eth0]:1": "fe80::/64", "@": "invalid Prefix", "": "invalid Prefix",
	} {
		if got := sourceOf(address).String(); got != want {
			t.Errorf("%s: %s, expected %s", address, got, want)
		}
	}
	if text := busy("%s", sourceOf("").Addr()).Description; !strings.Contains(text, "invalid") {
		t.Error(text)
	}
}

// parameter of an operation, perhaps a reference to one.
type parameter struct {
	Ref  string `yaml:"$ref"`
	Name string
	In   string
}

// The description and the routes say the same: paths, methods, names, parameters, bodies.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	type operation struct {
		ID         string `yaml:"operationId"`
		Summary    string
		Parameters []parameter
		Body       map[string]any `yaml:"requestBody"`
		Responses  map[string]any
	}
	var described struct {
		Paths map[string]struct {
			Parameters               []parameter
			Get, Post, Patch, Delete *operation
		}
		Components struct {
			Parameters map[string]parameter
			Responses  map[string]any
			Schemas    map[string]any
		}
	}
	if err := yaml.Unmarshal(openAPI, &described); err != nil {
		t.Fatal(err)
	}
	named := func(all []parameter, in string) (names []string) {
		for _, p := range all {
			if p.Ref != "" {
				p = described.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
			}
			if p.In == in {
				names = append(names, p.Name)
			}
		}
		return slices.Sorted(slices.Values(names))
	}
	seen, routes := make(map[string]bool), newRoutes()
	for path, methods := range described.Paths {
		for method, o := range map[string]*operation{"GET": methods.Get, "POST": methods.Post, "PATCH": methods.Patch, "DELETE": methods.Delete} {
			if o == nil {
				continue
			}
			at := slices.IndexFunc(routes, func(r *route) bool { return r.path == path && r.method == method })
			if at < 0 {
				t.Errorf("%s %s is described and is no route", method, path)
				continue
			}
			r := routes[at]
			seen[method+" "+path] = true
			if o.ID != r.name || o.Summary == "" || o.Responses["200"] == nil || o.Responses["default"] == nil {
				t.Errorf("%s %s: operation %q without summary or answers, expected %q", method, path, o.ID, r.name)
			}
			if got, want := named(o.Parameters, "query"), slices.Sorted(slices.Values(r.query)); !slices.Equal(got, want) {
				t.Errorf("%s %s: parameters %v, expected %v", method, path, got, want)
			}
			var inPath []string
			for part := range strings.SplitSeq(path, "/") {
				if name, is := strings.CutPrefix(part, "{"); is {
					inPath = append(inPath, strings.TrimSuffix(name, "}"))
				}
			}
			if got := named(methods.Parameters, "path"); !slices.Equal(got, slices.Sorted(slices.Values(inPath))) {
				t.Errorf("%s: parameters of the path %v, expected %v", path, got, inPath)
			}
			if hasBody := o.Body != nil; hasBody != (r.body != bodyNone) {
				t.Errorf("%s %s: has a body: %t", method, path, hasBody)
			}
		}
	}
	for _, r := range routes {
		if !seen[r.method+" "+r.path] {
			t.Errorf("%s %s is not described", r.method, r.path)
		}
		if r.changes != (r.method != "GET" && r.name != "previewSchedule") {
			t.Errorf("%s %s changes something: %t", r.method, r.path, r.changes)
		}
	}
	known := slices.Collect(maps.Keys(described.Components.Responses))
	for line := range strings.Lines(string(openAPI)) {
		if _, name, is := strings.Cut(line, `"#/components/responses/`); is {
			if name, _, _ = strings.Cut(name, `"`); !slices.Contains(known, name) {
				t.Errorf("there is no response %s", name)
			}
		}
		for _, ref := range strings.Split(line, `"#/components/schemas/`)[1:] {
			if name, _, _ := strings.Cut(ref, `"`); described.Components.Schemas[name] == nil {
				t.Errorf("there is no schema %s", name)
			}
		}
	}
}

// What a delivery has really cost is corrected over HTTP, too.
func TestTrueCostOverHTTP(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.ok(nil, "PATCH", "/v1/queues/jobs/config", `{"cost_rate":"100/24h"}`)
	s.ok(nil, "POST", "/v1/queues/jobs/push?cost=60", "x")
	var leased shownItem
	s.ok(&leased, "POST", "/v1/queues/jobs/pop?lease=1h", "")
	var info struct {
		CostTokens int64 `json:"cost_tokens"`
	}
	if s.ok(&info, "GET", "/v1/queues/jobs", ""); info.CostTokens != 40 {
		t.Errorf("%d are left behind a delivery of 60", info.CostTokens)
	}
	s.ok(nil, "POST", "/v1/queues/jobs/settle?cost=10&ack="+url.QueryEscape(leased.Ack), "+ACK")
	if s.ok(&info, "GET", "/v1/queues/jobs", ""); info.CostTokens != 90 {
		t.Errorf("%d are left behind a delivery that has cost 10", info.CostTokens)
	}
}
