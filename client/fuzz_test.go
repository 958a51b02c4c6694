package client

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Any answer to a request, also one of a responder that is no bridge, is read as a result
// with an id or as an error with a text.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"type":"io.pq.v1.push_response","stream":"jobs","seq":1,"id":"x","priority":5}`), "PQ-Id", "x", "")
	f.Add([]byte(`{"error":{"code":400,"description":"why"}}`), "Nats-Service-Error-Code", "400", "")
	f.Add([]byte(nil), "Status", "503", "")
	f.Add([]byte("x"), "PQ-Fence", "-1", "")
	f.Add([]byte("x"), "PQ-Lease-Expires", "2030-01-02T15:04:05Z", "pq.jobs.ack.a.b")
	f.Add([]byte("x"), "PQ-Origin-Id", "x", "")
	f.Add([]byte(`{"items":[{"id":"x","pushed":"2030-01-02T15:04:05Z","body":"eA=="}],"next":"x"}`), "Nats-Time-Stamp", "now", "")
	f.Add([]byte(`{"lease":"30s","config":{"ttl":"x"}}`), "PQ-Dead-Reason", "why", "")
	grammar, err := subjects.New(DefaultPrefix)
	if err != nil {
		f.Fatal(err)
	}
	q := &Queue{name: "jobs", client: &Client{grammar: grammar}}
	f.Fuzz(func(t *testing.T, body []byte, key, value, reply string) {
		m := &nats.Msg{Data: body, Reply: reply, Header: nats.Header{key: {value}}}
		var known *Error
		pushed, e := readPushed(m, "push", "jobs")
		switch {
		case e == nil && pushed.ID == "":
			t.Errorf("%q is read as a push without an id", body)
		case e != nil && (!errors.As(error(e), &known) || known.Queue != "jobs" || e.Error() == ""):
			t.Errorf("%q: %v", body, e)
		}
		if item, err := readItem(q, m); err == nil {
			if string(item.Payload) != string(body) || item.Leased() != (reply != "" || key == protocol.HeaderAck) ||
				item.Leased() && !strings.HasPrefix(item.AckSubject(), "pq.jobs.ack.") {
				t.Errorf("%q, %q: %q is read as %+v", body, key, value, item)
			}
			if _, ours := item.Header[key]; ours && strings.HasPrefix(key, protocol.HeaderPrefix) {
				t.Errorf("%q is left to the item", key)
			}
		} else if !strings.Contains(err.Error(), key) && !strings.Contains(err.Error(), protocol.HeaderAck) {
			t.Errorf("%q: %q: %v does not say which header", key, value, err)
		}
		for _, answer := range []any{new(Info), new(Config), new(System), new(protocol.Page)} {
			if json.Unmarshal(body, answer) != nil {
				continue
			}
			if _, err := json.Marshal(answer); err != nil && !strings.Contains(err.Error(), "Time") {
				t.Errorf("%q is read as %+v, which cannot be shown: %v", body, answer, err)
			}
		}
	})
}
