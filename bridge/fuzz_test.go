package bridge

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// told holds what a sender is told to what a header can carry.
func told(t *testing.T, f *failure) {
	t.Helper()
	text := headerText(f.text)
	if f.code != 400 || text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("failure %d %q", f.code, text)
	}
}

// Whatever a pop says, it is read to something within bounds or refused.
func FuzzPop(f *testing.F) {
	for _, body := range []string{"", "5", `{"batch":5,"expires":1000,"lease":1000,"max_bytes":5,"min":-1,"max":1,"msg_id":"a"}`, `{"batch":`, "[]", "+1"} {
		f.Add([]byte(body), "PQ-Band", "1..5", false)
	}
	f.Add([]byte(nil), "PQ-Lease", "30s", true)
	f.Add([]byte(nil), "PQ-Wait", "1h", true)
	f.Add([]byte(nil), "Nats-Msg-Id", "a", false)
	f.Fuzz(func(t *testing.T, body []byte, key, value string, peek bool) {
		r := &request{msg: &nats.Msg{Data: body, Header: nats.Header{key: {value}}}, verb: verbPop}
		r.subject.Verb = subjects.PopMin
		if peek {
			r.verb, r.subject.Verb = verbPeek, subjects.PeekMin
		}
		if f := readPop(r); f != nil {
			told(t, f)
			return
		}
		p := r.pop
		if p.limit < 1 || p.limit > fdbpq.MaxBatch || p.wait < 0 || p.wait > maxWait || p.lease < 0 || p.lease > fdbpq.MaxLease ||
			p.maxBytes < 0 || p.maxBytes > fdbpq.MaxBatchBytes || len(p.id) > fdbpq.MaxMsgID || p.band.Low > p.band.High {
			t.Errorf("%q, %q: %q gives %+v", body, key, value, p)
		}
	})
}

// Whatever headers a push has, those that travel come back as they were.
func FuzzPushHeaders(f *testing.F) {
	f.Add("X-Mine", "a", "b")
	f.Add("PQ-Priority", "5", "")
	f.Add("Nats-Msg-Id", "5", "")
	f.Add("a: b", "c\r", " d ")
	f.Fuzz(func(t *testing.T, key, first, second string) {
		if strings.ContainsAny(first+second, "\n") || strings.ContainsAny(key, ":\n") || key == "" {
			return // no header of a message
		}
		r := &request{msg: &nats.Msg{Header: nats.Header{key: {first, second}}}}
		r.subject.Queue = "jobs"
		if f := readPushHeaders(r); f != nil {
			told(t, f)
			return
		}
		header := make(nats.Header)
		addHeaders(header, r.item.Headers)
		if len(header) > 0 && !slices.Equal(header[key], []string{first, second}) {
			t.Errorf("%q: %q, %q came back as %q", key, first, second, header)
		}
		travels := !strings.HasPrefix(key, "PQ-") && !strings.HasPrefix(key, "Nats-") && key != "Status"
		if travels != (len(header) > 0) && !strings.HasPrefix(key, "Nats-") {
			t.Errorf("%q came back as %q", key, header)
		}
	})
}

// Whatever a settlement says, it is read or refused; a token that was changed
// in any way opens nothing.
func FuzzSettlement(f *testing.F) {
	b := &Bridge{}
	b.sealer.init([]byte("secret"))
	lease, err := fdbpq.ParseLease("jobs", []byte{21, 1, 21, 2, 21, 5, 21, 5, 21, 1, 1, 'r', 0})
	if err != nil {
		f.Fatal(err)
	}
	pop := popRequest{end: fdbpq.Max, band: fdbpq.Band{Low: -5, High: 1 << 40}}
	token := string(b.sealer.append(nil, &lease, &pop, time.Minute))
	for _, body := range []string{"", "+ACK", "+OK", "-NAK", `-NAK {"delay":5}`, "-NAK 5s", "+WPI", "+TERM why", "+NXT 5", `+NXT {"lease":5}`, "+ACK x"} {
		f.Add([]byte(body), token, "jobs")
	}
	f.Add([]byte(nil), token[1:], "jobs")
	f.Add([]byte(nil), token, "job")
	f.Add([]byte(nil), "AAAA", "jobs")
	f.Fuzz(func(t *testing.T, body []byte, given, queue string) {
		r := &request{msg: &nats.Msg{Data: body}}
		r.subject = subjects.Subject{Queue: queue, Verb: subjects.Ack, Token: given}
		failed := b.readSettlement(r)
		if failed != nil {
			told(t, failed)
		}
		opened := failed != errToken
		if genuine := given == token && queue == "jobs"; opened != genuine {
			t.Errorf("token %q of %q: opened %v", given, queue, opened)
		}
		if opened && failed == nil && (r.settle.lease.Fence != lease.Fence || r.settle.lease.ID() != lease.ID() || r.pop.end != fdbpq.Max) {
			t.Errorf("%+v, %+v", r.settle, r.pop)
		}
	})
}
