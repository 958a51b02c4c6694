package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// An item over HTTP has what each header says. One that cannot be read is an error.
func TestItemHeaders(t *testing.T) {
	t.Parallel()
	for _, h := range protocol.ItemHeaders {
		if h.Field == "" || h.Name == protocol.HeaderExplain || h.Name == protocol.HeaderAttempts {
			continue // in JSON
		}
		value, want, wrong := "x", "x", ""
		switch h.Type.(type) {
		case int64:
			value, want, wrong = "7", "7", "seven"
		case protocol.Duration:
			value, want = "1m30s", "1m30s"
			if h.Name != protocol.HeaderBackoff { // which stays a text
				wrong = "soon"
			}
		case time.Time:
			value, want, wrong = "2001-02-03T04:05:06Z", "2001-02-03 04:05:06 +0000 UTC", "soon"
		}
		i, why := readItem("jobs", &nats.Msg{Header: nats.Header{h.Name: {value}}})
		if why != nil {
			t.Errorf("%s: %s", h.Name, why.Description)
			continue
		}
		field := reflect.ValueOf(i.Item)
		for name := range strings.SplitSeq(h.Field, ".") {
			field = reflect.Indirect(field).FieldByName(name)
		}
		if !field.IsValid() || fmt.Sprint(field) != want {
			t.Errorf("%s of %s: the item has %s of %v", h.Name, value, h.Field, field)
		}
		if _, why := readItem("jobs", &nats.Msg{Header: nats.Header{h.Name: {wrong}}}); (why != nil) != (wrong != "") {
			t.Errorf("%s of %q: %v", h.Name, wrong, why)
		}
	}
}

// The history of a queue is there for whoever may have its info, and for nobody else.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.refused(404, "no queue jobs", "GET", "/v1/queues/jobs/history", "")
	s.make("jobs")
	var h struct {
		Bridge            string
		Step              float64
		Push, Pop, Settle []int64
		Ready             []*int64
		Failed            []int64
		Dead, LeasesLost  []int64
		End               string
	}
	s.ok(&h, "GET", "/v1/queues/jobs/history", "")
	if h.Bridge == "" || h.Step != 60 || len(h.Push) != 60 || len(h.Pop) != 60 || len(h.Settle) != 60 || len(h.Ready) != 60 || h.Failed != nil || h.End == "" {
		t.Errorf("%+v", h)
	}
	all := h
	all.Ready = nil
	s.ok(&all, "GET", "/v1/history", "")
	if all.Bridge != h.Bridge || len(all.Push) != 60 || len(all.Failed) != 60 || len(all.Dead) != 60 || all.Ready != nil {
		t.Errorf("%+v", all)
	}
	var bridges struct{ Bridges []struct{ ID string } }
	if s.ok(&bridges, "GET", "/v1/bridges", ""); len(bridges.Bridges) != 1 || bridges.Bridges[0].ID != h.Bridge {
		t.Errorf("%+v, expected the bridge %s", bridges, h.Bridge)
	}
	s.refused(400, "expected none", "GET", "/v1/history?queue=jobs", "")
	if r := s.send("GET", "/v1/queues/jobs", ""); strings.Contains(r.body, "history") {
		t.Errorf("info has a history that nobody asked for: %s", r.body)
	}
}

// held pushes an item and leases it. It returns the paths of its result and of its settlement.
func (s *site) held(query string) (result, settle string) {
	s.Helper()
	var pushed protocol.PushResponse
	s.ok(&pushed, "POST", "/v1/queues/jobs/push?"+query, "x")
	var leased shownItem
	if s.ok(&leased, "POST", "/v1/queues/jobs/pop?lease=1h", ""); leased.ID != pushed.ID {
		s.Fatalf("popped %s, expected %s", leased.ID, pushed.ID)
	}
	return "/v1/queues/jobs/items/" + pushed.ID + "/result", "/v1/queues/jobs/settle?ack=" + url.QueryEscape(leased.Ack)
}

// A settlement may say any bytes. Who waits for the result gets them, and so does who asks later.
func TestResult(t *testing.T) {
	t.Parallel()
	s := open(t)
	long := strings.Repeat("ü", protocol.MaxRequestBody)
	for said, want := range map[string]struct{ kept, body, base64 string }{
		"+ACK":                       {},
		"+ACK ":                      {kept: protocol.ResultKept},
		"+ACK 12 boards\r\n":         {kept: protocol.ResultKept, body: "12 boards\r\n"},
		"+ACK " + long:               {kept: protocol.ResultKept, body: long},
		"+ACK a \xff is no \x00text": {kept: protocol.ResultKept, base64: "a \xff is no \x00text"},
	} {
		result, settle := s.held("result_ttl=1h")
		if why := s.refused(404, "no result yet", "GET", result, ""); why.Reason != protocol.ReasonPending {
			t.Errorf("before %.20q: %+v", said, why)
		}
		told := make(chan reply, 1)
		go func() { told <- s.send("GET", result+"?wait=100s", "") }()
		var settled struct{ Result string }
		if s.ok(&settled, "POST", settle, said); settled.Result != want.kept {
			t.Errorf("%.20q is answered by %+v", said, settled)
		}
		var e protocol.ItemResult
		s.ok(&e, "GET", result, "")
		var body string
		if e.Body != nil {
			body = *e.Body
		}
		if e.Queue != "jobs" || !strings.Contains(result, e.ID) || e.Outcome != protocol.FinishDone || e.Deliveries != 1 || e.FinishedAt.IsZero() ||
			e.Dropped || body != want.body || string(e.Base64) != want.base64 {
			t.Errorf("%.20q leaves %+v with %.20q", said, e, body)
		}
		if waited, later := <-told, s.send("GET", result, ""); waited.code != 200 || waited.body != later.body {
			t.Errorf("who has waited gets %+v, who asks later %+v", waited, later)
		}
	}
}

// What is not kept, and what is not there, is said in the words of the protocol.
func TestResultThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := open(t)
	result, settle := s.held("")
	if why := s.refused(409, "", "GET", result, ""); why.Reason != protocol.ReasonUnkept {
		t.Errorf("%+v", why)
	}
	var settled struct{ Result string }
	if s.ok(&settled, "POST", settle, "+ACK x"); settled.Result != protocol.ResultNone {
		t.Errorf("nobody asked: %+v", settled)
	}
	if why := s.refused(404, "", "GET", result+"?wait=100s", ""); why.Reason != protocol.ReasonUnknown {
		t.Errorf("%+v", why)
	}

	result, settle = s.held("result_ttl=1h")
	s.refused(408, "", "GET", result+"?wait=1ms", "")
	s.ok(nil, "PATCH", "/v1/queues/jobs/config", `{"result_bytes":325}`)
	if s.ok(&settled, "POST", settle, "+ACK 123456"); settled.Result != protocol.ResultDropped {
		t.Errorf("no room: %+v", settled)
	}
	var e protocol.ItemResult
	if s.ok(&e, "GET", result, ""); !e.Dropped || e.Body != nil || e.Outcome != protocol.FinishDone {
		t.Errorf("no room: %+v", e)
	}

	s.refused(400, `wait is "soon": expected`, "GET", result+"?wait=soon", "")
	s.refused(400, `parameter "lease": expected wait`, "GET", result+"?lease=1s", "")
	s.refused(400, "", "GET", "/v1/queues/jobs/items/none/result", "")
}

// Over HTTP a holder says how far it is, hears that this was dropped, and who asks for the result of the item sees it.
func TestProgress(t *testing.T) {
	t.Parallel()
	s := open(t)
	result, settle := s.held("result_ttl=1h")
	var settled struct{ Progress string }
	if s.ok(&settled, "POST", settle, "+WPI 3 of 9"); settled.Progress != "" {
		t.Errorf("%+v", settled)
	}
	if why := s.refused(404, "", "GET", result, ""); why.Reason != protocol.ReasonPending || why.Progress != "3 of 9" {
		t.Errorf("%+v", why)
	}
	s.ok(nil, "PATCH", "/v1/queues/jobs/config", `{"max_bytes":1}`)
	for _, size := range []int{1000, 4000} { // in a line of a bundle, and alone
		if s.ok(&settled, "POST", settle, "+WPI "+strings.Repeat("p", size)); settled.Progress != protocol.ResultDropped {
			t.Errorf("without room for %d bytes: %+v", size, settled)
		}
	}
	if why := s.refused(404, "", "GET", result, ""); why.Progress != "3 of 9" {
		t.Errorf("%+v", why)
	}
}

// A caller that leaves ends the request to the bridge: nobody listens for its answer any more.
func TestCallerLeavesWhileItWaitsForAResult(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	ctx, leave := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		o.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/queues/jobs/items/i/result?wait=100s", nil))
	}()
	m := o.next()
	if m.Subject != "pq.jobs.result.i" || m.Header.Get("PQ-Wait") != "100s" || len(m.Header) != 1 || len(m.Data) != 0 {
		t.Errorf("asked %s %v %q", m.Subject, m.Header, m.Data)
	}
	if n := o.room.waiting.taken(); n != 1 {
		t.Errorf("%d requests wait, expected one", n)
	}
	leave()
	<-served
	if err := o.wire.Load().nc.FlushTimeout(testenv.Patience()); err != nil { // the server knows that nobody listens
		t.Fatal(err)
	}
	bridge := o.nats.Connect(t, nats.UserInfo("bridge", "p"))
	if _, err := bridge.Request(m.Reply, nil, testenv.Patience()); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("an answer would have gone to somebody: %v", err)
	}
}

// A caller that asks for that cancels its item by leaving; one that is told the end of its time, or what became of the item, does not.
func TestCallerCancelsByHangingUp(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	const result = "/v1/queues/jobs/items/i/result?wait=100s"
	ask := func(ctx context.Context, method, query string) (answer *httptest.ResponseRecorder, served chan struct{}) {
		answer, served = httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(served)
			o.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, method, result+query, nil))
		}()
		return answer, served
	}
	ctx, leave := context.WithCancel(t.Context())
	_, served := ask(ctx, http.MethodPost, "&cancel=true")
	if m := o.next(); m.Subject != "pq.jobs.result.i" || m.Header.Get("PQ-Wait") != "100s" || len(m.Data) != 0 {
		t.Errorf("asked %s %v %q", m.Subject, m.Header, m.Data)
	}
	leave()
	m := o.next()
	if m.Subject != "pq.jobs.cancel.i" || string(m.Data) != `{"reason":"the caller has hung up"}` {
		t.Errorf("hung up: asked %s %q", m.Subject, m.Data)
	}
	if err := m.Respond([]byte(`{"id":"i","priority":0,"outcome":"cancelled","deliveries":0}`)); err != nil {
		t.Fatal(err)
	}
	<-served

	for _, quiet := range []struct{ method, query string }{{http.MethodGet, ""}, {http.MethodPost, ""}, {http.MethodPost, "&cancel=false"}} {
		ctx, leave := context.WithCancel(t.Context())
		_, served := ask(ctx, quiet.method, quiet.query)
		o.next()
		leave()
		<-served
	}
	answer, served := ask(t.Context(), http.MethodPost, "&cancel=true")
	m = o.next()
	if err := m.RespondMsg(&nats.Msg{Header: nats.Header{"PQ-Outcome": {"cancelled"}, "PQ-Cancel-Reason": {"why"}, "PQ-Finished-At": {"2026-01-01T00:00:00Z"}, "PQ-Deliveries": {"1"}}}); err != nil {
		t.Fatal(err)
	}
	<-served
	if want := `"outcome":"cancelled","finished_at":"2026-01-01T00:00:00Z","deliveries":1,"cancel_reason":"why"}`; answer.Code != 200 || !strings.Contains(answer.Body.String(), want) {
		t.Errorf("answered %d %s", answer.Code, answer.Body)
	}
	go func() {
		o.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/queues/last/items/i", nil))
	}()
	if m := o.next(); m.Subject != "pq.last.get.i" {
		t.Errorf("others have asked %s, too", m.Subject)
	}
}
