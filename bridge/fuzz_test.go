package bridge

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/internal/testkit/expense"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// checkRefusal checks that a refusal has the code 400, or 413, and a text that fits into a header.
func checkRefusal(t *testing.T, f *failure.Failure) {
	t.Helper()
	text := failure.HeaderText(f.Text)
	if f.Code != 400 && f.Code != 413 || text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("failure %d %q", f.Code, text)
	}
}

// The same for the bodies and headers of all other requests.
func FuzzRequest(f *testing.F) {
	f.Add("list", []byte(`{"limit":100,"after":"FQEVAgE","state":"ready","bodies":true}`), "PQ-Wait")
	f.Add("list", []byte(`{"state":"dead"}`), "X-Mine")
	f.Add("get.FQEVAgE", []byte("x"), "X-Mine")
	f.Add("move.FQEVAgE.5", []byte(nil), "PQ-Id")
	f.Add("admin.config", []byte(`{"dead_letter":"_sys"}`), "X-Mine")
	f.Add("admin.source.s", []byte(`{"remote":"hub","stream":"ORDERS","map":{"key":{"token":2,"default":"x"}}}`), "X-Mine")
	f.Add("link.l", []byte(`{"taker":"t","done":7,"batch":"b","max":5,"accept":true}`), "X-Mine")
	f.Add("admin.link.l", []byte(`{"to":"t"}`), "X-Mine")
	f.Add("admin.source.s.resume", []byte(`{"from_time":"2030-01-02T15:04:05Z"}`), "X-Mine")
	f.Add("admin.schedule.s", []byte(`{"spec":"*/5 1-3 * * 7","item":{"headers":{"A":["b"]},"payload_base64":"AA=="}}`), "X-Mine")
	f.Add("keys", []byte(`{"after":"\u00e9","limit":5}`), "X-Mine")
	f.Add("key.%C3%A9", []byte(nil), "X-Mine")
	f.Add("admin.key.%FF", []byte(`{"limit":null}`), "X-Mine")
	f.Add("admin.purge", []byte(" "), "X-Mine")
	for _, verb := range []string{"list", "schedule.s", "admin.schedule.s", "admin.source.s.resume", "admin.remove", "link.l"} {
		f.Add(verb, []byte(strings.Repeat(`{"a":`, 5_000)), "X-Mine")
		f.Add(verb, []byte(strings.Repeat(`{"`+strings.Repeat("n", 40)+`":`, 500)+"1"+strings.Repeat("}", 500)), "X-Mine")
		f.Add(verb, []byte(`{"`+strings.Repeat("n", 8_000)+`":1}`), "PQ-"+strings.Repeat("N", 1_000))
	}
	f.Add("get."+strings.Repeat("F", 4_000), []byte(nil), "X-Mine")
	f.Add("key."+strings.Repeat("%C3%A9", 600), []byte(nil), "X-Mine")
	f.Add("admin.schedule."+strings.Repeat("s", 4_000), []byte("{}"), "X-Mine")
	f.Add("list"+strings.Repeat(".a", 2_000), []byte(nil), "X-Mine")
	f.Add("admin.requeue", []byte(`{"where":{"reason":"a*","header":{"A":"*"}},"limit":0,"to":"jobs","spread":"1s"}`), "X-Mine")
	w, err := codec.New("pq", nil, func() int64 { return protocol.MaxPayload })
	if err != nil {
		f.Fatal(err)
	}
	w.Limit.Refresh()
	f.Fuzz(func(t *testing.T, verb string, body []byte, key string) {
		for _, subject := range []string{"pq.jobs." + verb, "pq._sys.list", "pq._sys.info"} {
			var r desk.Work
			var failed *failure.Failure
			_, beyond := expense.Least(func() { r, failed = nil, nil }, func() int {
				s, err := w.Grammar.Parse(subject)
				if err != nil {
					return len(subject)
				}
				switch v := verbOf(s.Verb); v.kind {
				case kindPush, kindImport, kindPop, kindPeek, kindSettlement: // they have targets of their own
				default:
					r = newWork(v, s, &nats.Msg{Data: body, Header: nats.Header{key: {"1"}}})
					failed = r.Read(w)
				}
				return len(subject) + len(body) + len(key)
			})
			if beyond != "" {
				t.Errorf("%.100s: %s", subject, beyond)
			}
			if failed != nil {
				checkRefusal(t, failed)
			}
		}
	})
}

// The queue of a malformed subject is guessed whatever is wrong with the subject.
func FuzzMeant(f *testing.F) {
	f.Add("pq", "jobs.push.high")
	f.Add("a.b", "_sys.push")
	f.Add("pq", ".")
	f.Fuzz(func(t *testing.T, prefix, rest string) {
		wr, err := codec.New(prefix, nil, func() int64 { return protocol.MaxPayload })
		if err != nil {
			return
		}
		d := &dispatcher{Wire: wr}
		subject := prefix + "." + rest
		if v := d.meant(subject); verbs[v.Index] != v {
			t.Errorf("%q means %+v", subject, v)
		}
		if queue := d.meantQueue(subject); queue != "" && subjects.CheckQueue(queue) != nil {
			t.Errorf("%q means the queue %q", subject, queue)
		}
	})
}
