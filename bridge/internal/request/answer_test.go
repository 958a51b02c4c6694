package request_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/events"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// work is a request that counts how often it ended.
type work struct {
	request.Request
	items []fdbpq.Item
	ended int
}

func (w *work) Items() []fdbpq.Item { return w.items }
func (w *work) End()                { w.ended++ }

// arrive returns the work of a message that the gate of a responder has admitted.
func arrive(t *testing.T, re *request.Responder, v *request.Verb, m *nats.Msg) *work {
	t.Helper()
	w := &work{}
	w.Prepare(w, v, subjects.Subject{Queue: "jobs"}, m)
	if f := re.Gate.Enter(&w.Request); f != nil {
		t.Fatal(f)
	}
	return w
}

// newResponder returns a responder, and what it publishes on inboxes and as events.
func newResponder(t *testing.T) (re *request.Responder, came chan *nats.Msg) {
	t.Helper()
	srv := testenv.VirtualNATS(t)
	nc := srv.Connect(t)
	grammar, err := subjects.New("pq")
	if err != nil {
		t.Fatal(err)
	}
	log, stats := slog.New(slog.DiscardHandler), request.NewStatistics([]string{"ask"}, 10)
	came = make(chan *nats.Msg, 100)
	if _, err := nc.ChanSubscribe(">", came); err != nil {
		t.Fatal(err)
	}
	announcer := events.New(nc, grammar, log, stats, nil)
	t.Cleanup(announcer.Close)
	return &request.Responder{
		Conn: nc, Log: log, Stats: stats, Gate: request.NewGate(10, 1<<30), Lost: announcer.Lost,
	}, came
}

// published returns what a responder has published so far.
func published(t *testing.T, re *request.Responder, came chan *nats.Msg) (all []*nats.Msg) {
	t.Helper()
	if err := re.Conn.FlushTimeout(testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	for len(came) > 0 {
		all = append(all, <-came)
	}
	return all
}

// Each kind of request has refusals in the form that its clients recognise.
func TestRefusals(t *testing.T) {
	t.Parallel()
	re, came := newResponder(t)
	own := &failure.Failure{Code: 409, Text: "line\nbreak", Description: "Own Words", Reason: protocol.ReasonOccupied}
	for _, tc := range []struct {
		form   request.Refusal
		f      *failure.Failure
		status string
		body   string // its type
	}{
		{request.AsService, failure.Newf(404, "no"), "404", ""},
		{request.AsService, failure.Newf(400, "no"), "400", protocol.ErrorResponseType},
		{request.AsService, failure.Newf(503, "no"), "503", ""},
		{request.AsService, failure.Newf(504, "no"), "", ""},
		{request.AsService, own, "409", ""},
		{request.AsPublish, failure.Newf(400, "no"), "", protocol.PushResponseType},
		{request.AsPublish, own, "", protocol.PushResponseType},
		{request.AsPublish, failure.Newf(503, "no"), "503", ""},
		{request.AsPublish, failure.Newf(504, "no"), "", ""},
		{request.AsSettlement, failure.Newf(400, "no"), "503", ""},
		{request.AsSettlement, own, "503", ""},
		{request.AsSettlement, failure.Newf(504, "no"), "503", ""},
	} {
		w := arrive(t, re, &request.Verb{Refusal: tc.form}, &nats.Msg{Reply: "inbox"})
		re.Refuse(&w.Request, tc.f)
		all := published(t, re, came)
		if len(all) != 1 {
			t.Fatalf("%+v: published %v", tc, all)
		}
		m, description := all[0], ""
		if tc.status != "" {
			description = tc.f.Describe()
		}
		if got := m.Header; got.Get("Status") != tc.status || got.Get("Description") != description || got.Get("PQ-Reason") != string(tc.f.Reason) ||
			got.Get("Nats-Service-Error") != strings.ReplaceAll(tc.f.Text, "\n", "?") {
			t.Errorf("%d in form %d: %v", tc.f.Code, tc.form, got)
		}
		var body struct {
			Type  string
			Error struct{ Code int }
		}
		if len(m.Data) > 0 && json.Unmarshal(m.Data, &body) != nil || body.Type != tc.body || tc.body != "" && body.Error.Code != tc.f.Code {
			t.Errorf("%d in form %d: body %s", tc.f.Code, tc.form, m.Data)
		}
	}
}

// A request that is refused without a reply subject is answered nowhere. Only a push is
// lost by that, and reported.
func TestRefusedWithoutReply(t *testing.T) {
	t.Parallel()
	re, came := newResponder(t)
	var log strings.Builder // of answers that were lost
	re.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, tc := range []struct {
		form  request.Refusal
		reply string
		want  []string // subjects
	}{
		{request.AsService, "", nil},
		{request.AsSettlement, "", nil},
		{request.AsPublish, "inbox", []string{"inbox"}},
		{request.AsPublish, "", []string{"pq.jobs.event.error"}},
	} {
		w := arrive(t, re, &request.Verb{Refusal: tc.form}, &nats.Msg{Reply: tc.reply, Data: []byte("x")})
		re.Refuse(&w.Request, failure.Newf(429, "no"))
		var got []string
		for _, m := range published(t, re, came) {
			got = append(got, m.Subject)
		}
		if strings.Join(got, " ") != strings.Join(tc.want, " ") {
			t.Errorf("form %d, reply %q: published on %q, expected %q", tc.form, tc.reply, got, tc.want)
		}
		if n, _, bytes := re.Gate.InFlight(); n != 0 || bytes != 0 || w.ended != 1 {
			t.Errorf("form %d: %d requests and %d bytes in flight, ended %d times", tc.form, n, bytes, w.ended)
		}
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
	if n := re.Stats.Lost(); n != 1 {
		t.Errorf("%d pushes lost, expected 1", n)
	}
	if requests, failures := re.Stats.Verbs[0].Requests(); requests != 4 || failures != 4 {
		t.Errorf("%d requests and %d failures, expected 4 and 4", requests, failures)
	}
}

// An answer that the server does not take is a failure, and the client hears of it.
func TestAnswerBody(t *testing.T) {
	t.Parallel()
	re, came := newResponder(t)
	for _, size := range []int64{1, re.Conn.MaxPayload() + 1} {
		w := arrive(t, re, &request.Verb{}, &nats.Msg{Reply: "inbox"})
		re.AnswerBody(&w.Request, make([]byte, size))
		all := published(t, re, came)
		if fits := size == 1; len(all) != 1 || fits != (len(all[0].Data) == 1) || fits == (all[0].Header.Get("Nats-Service-Error-Code") == "413") {
			t.Errorf("an answer of %d bytes: %v", size, all)
		}
		if w.ended != 1 {
			t.Errorf("ended %d times", w.ended)
		}
	}
	if requests, failures := re.Stats.Verbs[0].Requests(); requests != 2 || failures != 1 {
		t.Errorf("%d requests and %d failures, expected 2 and 1", requests, failures)
	}
}

// An answer that no message can be becomes an error.
func TestAnswerThatCannotBeSent(t *testing.T) {
	t.Parallel()
	re, came := newResponder(t)
	w := arrive(t, re, &request.Verb{Name: "ask"}, &nats.Msg{Reply: "_INBOX.x"})
	f := re.Answer(&w.Request, &nats.Msg{Subject: "_INBOX.x", Header: nats.Header{"": {"x"}}})
	all := published(t, re, came)
	if f == nil || f.Code != 500 || len(all) != 1 || all[0].Header.Get("Nats-Service-Error-Code") != "500" {
		t.Errorf("%v, published %v", f, all)
	}
}
