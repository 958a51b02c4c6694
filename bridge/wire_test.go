package bridge_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// strictly reads an answer, and fails on fields that package protocol does not have.
func strictly[T any](t *testing.T, body []byte) (answer T) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&answer); err != nil {
		t.Errorf("%s: %v", body, err)
	}
	return answer
}

// The acknowledgement of a push, which is written by hand, is the one of package
// protocol, byte for byte.
func TestPushResponse(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{"max_length":1,"overflow":"evict"}`)
	for _, want := range []string{"plain", "duplicate", "evicted"} {
		priority := map[string]string{"plain": "5", "duplicate": "5", "evicted": "9"}[want]
		id := map[string]string{"plain": "1", "duplicate": "1", "evicted": "2"}[want]
		m := c.ask("pq.jobs.push."+priority, "x", protocol.HeaderMsgID, id)
		p := strictly[protocol.PushResponse](t, m.Data)
		if again, err := json.Marshal(p); err != nil || !bytes.Equal(again, m.Data) {
			t.Errorf("%s: answered %s, which package protocol writes %s (%v)", want, m.Data, again, err)
		}
		if p.Type != protocol.PushResponseType || p.Stream != "jobs" || p.Duplicate != (want == "duplicate") || p.Evicted != (want == "evicted") {
			t.Errorf("%s: %+v", want, p)
		}
	}
	p := strictly[protocol.PushResponse](t, c.ask("pq.jobs.push.5", "x", protocol.HeaderDelay, "soon").Data)
	if p.Error == nil || p.Error.Code != protocol.CodeBadRequest || p.Error.ErrCode != 30_400 || p.Error.Description == "" {
		t.Errorf("an error: %+v", p.Error)
	}
}

// Package protocol has every field of the bridge's JSON answers.
func TestJSONAnswers(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.push("pq.jobs.push.5", "x", "X", "y").ID
	c.push("pq.jobs.push.5", "")
	info := strictly[protocol.Info](t, c.ask("pq.jobs.info", "").Data)
	if info.Queue != "jobs" || info.Ready != 2 {
		t.Errorf("%+v", info)
	}
	page := strictly[protocol.Page](t, c.ask("pq.jobs.list", `{"bodies":true,"limit":1}`).Data)
	if len(page.Items) != 1 || page.Next != id || page.Items[0].ID != id || string(page.Items[0].Body) != "x" ||
		page.Items[0].State != protocol.StateReady || page.Items[0].Headers["X"][0] != "y" || time.Since(page.Items[0].Pushed) > time.Hour {
		t.Errorf("%+v", page)
	}
	if page = strictly[protocol.Page](t, c.ask("pq.jobs.list", `{"bodies":true,"after":"`+id+`"}`).Data); page.Items[0].Body == nil {
		t.Errorf("an empty payload is left out: %+v", page.Items[0])
	}
	if page = strictly[protocol.Page](t, c.ask("pq.jobs.list", "").Data); page.Items[0].Body != nil {
		t.Errorf("an item with an unrequested payload: %+v", page.Items[0])
	}
	if p := strictly[protocol.Page](t, c.ask("pq.jobs.list", `{"state":"leased"}`).Data); p.Items == nil || len(p.Items) != 0 {
		t.Errorf("an empty page: %+v", p)
	}
	if moved := strictly[protocol.Changed](t, c.ask("pq.jobs.move."+id+".7", "").Data); moved != (protocol.Changed{ID: id, Priority: 7}) {
		t.Errorf("%+v", moved)
	}
	if removed := strictly[protocol.Changed](t, c.ask("pq.jobs.remove."+id, "").Data); removed != (protocol.Changed{ID: id, Priority: 7}) {
		t.Errorf("%+v", removed)
	}
	for _, verb := range []string{"pause", "resume"} {
		if named := strictly[protocol.Named](t, c.ask("pq.jobs.admin."+verb, "").Data); named.Queue != "jobs" {
			t.Errorf("%s: %+v", verb, named)
		}
	}
	if purged := strictly[protocol.Purged](t, c.ask("pq.jobs.admin.purge", "").Data); purged.Purged != 1 {
		t.Errorf("%+v", purged)
	}
	queues := strictly[protocol.Queues](t, c.ask("pq._sys.list", `{"limit":5}`).Data)
	if queues.Total != 1 || queues.Limit != 5 || len(queues.Queues) != 1 {
		t.Errorf("%+v", queues)
	}
	system := strictly[protocol.System](t, c.ask("pq._sys.info", "").Data)
	if system.Prefix != "pq" || system.StoreID == "" || time.Duration(system.Limits.Wait) != protocol.MaxWait {
		t.Errorf("%+v", system)
	}
	failed := strictly[protocol.ErrorResponse](t, c.ask("pq.jobs.pup", "").Data)
	if failed.Type != protocol.ErrorResponseType || failed.Error.Code != protocol.CodeBadRequest {
		t.Errorf("%+v", failed)
	}
}

// Every field of a configuration can be changed and is answered.
func TestConfigFields(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.d.admin.config", `{"dead_letters_from":"jobs"}`)
	want := protocol.Config{
		Priority: 1, Lease: protocol.Duration(time.Second), TTL: protocol.Duration(2 * time.Second), MaxDeliveries: 3, MaxInterruptions: "12",
		DeadLetter: "d", DeadLetterExpired: true, DeadLettersFrom: "a,b", DedupWindow: protocol.Duration(4 * time.Second),
		DedupLimit: 5, Ties: "oldest", MaxLength: 6, MaxBytes: 11, Overflow: "evict", KeyLimit: 7, KeyOrder: true,
		Fair: "priority", Rate: "8/1m0s", KeyRate: "9/1h0m0s", HandOver: "b,c", Strict: true,
		Backoff: `["1s","2m0s"]`, Attempts: 3, ResultBytes: 10, ExpireEmpty: protocol.Duration(time.Minute),
		CostRate: "90000/1m0s", KeyCostRate: "1000000000000/24h0m0s",
	}
	body, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var change protocol.ConfigChange
	if err := json.Unmarshal(body, &change); err != nil {
		t.Fatal(err)
	}
	for i := range reflect.TypeFor[protocol.Config]().NumField() {
		if reflect.ValueOf(want).Field(i).IsZero() || reflect.ValueOf(change).Field(i).IsNil() {
			t.Errorf("field %s is not part of this test", reflect.TypeFor[protocol.Config]().Field(i).Name)
		}
	}
	if body, err = json.Marshal(change); err != nil {
		t.Fatal(err)
	}
	if got := strictly[protocol.Config](t, c.ask("pq.jobs.admin.config", string(body)).Data); got != want {
		t.Errorf("configured %+v, expected %+v", got, want)
	}
	if got := c.info("jobs"); got.Queue != "jobs" {
		t.Errorf("%+v", got)
	}
	if got := strictly[protocol.Info](t, c.ask("pq.jobs.info", "").Data).Config; got != want {
		t.Errorf("info shows %+v, expected %+v", got, want)
	}
}
