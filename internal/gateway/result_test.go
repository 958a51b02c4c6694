package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

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
