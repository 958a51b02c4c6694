package bridge

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// checkRefusal checks that a refusal has the code 400 and a text that fits into a header.
func checkRefusal(t *testing.T, f *failure.Failure) {
	t.Helper()
	text := failure.HeaderText(f.Text)
	if f.Code != 400 || text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("failure %d %q", f.Code, text)
	}
}

// Any pop is read as a request within bounds, or refused.
func FuzzPop(f *testing.F) {
	for _, body := range []string{"", "5", `{"batch":5,"expires":1000,"lease":1000,"max_bytes":5,"min":-1,"max":1,"msg_id":"a"}`, `{"batch":`, "[]", "+1"} {
		f.Add([]byte(body), "PQ-Band", "1..5", false)
	}
	f.Add([]byte(nil), "PQ-Lease", "30s", true)
	f.Add([]byte(nil), "PQ-Wait", "1h", true)
	f.Add([]byte(nil), "Nats-Msg-Id", "a", false)
	f.Fuzz(func(t *testing.T, body []byte, key, value string, peek bool) {
		verb := subjects.PopMin
		if peek {
			verb = subjects.PeekMin
		}
		r := newWork(verbOf(verb), subjects.Subject{Verb: verb}, &nats.Msg{Data: body, Header: nats.Header{key: {value}}})
		if f := r.read(nil); f != nil {
			checkRefusal(t, f)
			return
		}
		p := r.(*pop).ask
		if p.limit < 1 || p.limit > fdbpq.MaxBatch || p.wait < 0 || p.wait > protocol.MaxWait || p.lease < 0 || p.lease > fdbpq.MaxLease ||
			p.maxBytes < 0 || p.maxBytes > fdbpq.MaxBatchBytes || len(p.id) > fdbpq.MaxMsgID || p.band.Low > p.band.High {
			t.Errorf("%q, %q: %q gives %+v", body, key, value, p)
		}
	})
}

// The headers that stay with an item are returned unchanged.
func FuzzPushHeaders(f *testing.F) {
	f.Add("X-Mine", "a", "b")
	f.Add("PQ-Priority", "5", "")
	f.Add("Nats-Msg-Id", "5", "")
	f.Add("a: b", "c\r", " d ")
	f.Add("PQ-Settle", "pq.jobs.ack.c.dG9rZW4", "")
	w := &wire{}
	w.sealer.init([]byte("secret"))
	f.Fuzz(func(t *testing.T, key, first, second string) {
		if strings.ContainsAny(first+second, "\n") || strings.ContainsAny(key, ":\n") || key == "" {
			return // no header of a message
		}
		r := new(push)
		r.Msg, r.Subject.Queue = &nats.Msg{Header: nats.Header{key: {first, second}}}, "jobs"
		if f := r.readHeaders(w); f != nil {
			checkRefusal(t, f)
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

// Any settlement is read or refused. A changed token is refused.
func FuzzSettlement(f *testing.F) {
	w := &wire{}
	w.sealer.init([]byte("secret"))
	lease, err := fdbpq.ParseLease("jobs", []byte{21, 1, 21, 2, 21, 5, 21, 5, 21, 1, 1, 'r', 0})
	if err != nil {
		f.Fatal(err)
	}
	pop := terms{end: fdbpq.Max, band: fdbpq.Band{Low: -5, High: 1 << 40}, lease: time.Minute}
	token := string(w.sealer.append(nil, &lease, pop))
	for _, body := range []string{"", "+ACK", "+OK", "-NAK", `-NAK {"delay":5}`, "-NAK 5s", "+WPI", "+TERM why", "+NXT 5", `+NXT {"lease":5}`, "+ACK x"} {
		f.Add([]byte(body), token, "jobs")
	}
	f.Add([]byte(nil), token[1:], "jobs")
	f.Add([]byte(nil), token[:5]+"\n"+token[5:], "jobs")
	f.Add([]byte(nil), token, "job")
	f.Add([]byte(nil), "AAAA", "jobs")
	f.Fuzz(func(t *testing.T, body []byte, given, queue string) {
		r := new(settlement)
		r.Msg, r.Subject = &nats.Msg{Data: body}, subjects.Subject{Queue: queue, Verb: subjects.Ack, Token: given}
		failed := r.read(w)
		if failed != nil {
			checkRefusal(t, failed)
		}
		opened := failed != errToken
		if genuine := given == token && queue == "jobs"; opened != genuine {
			t.Errorf("token %q of %q: opened %v", given, queue, opened)
		}
		if opened && failed == nil && (r.lease.Fence != lease.Fence || r.lease.ID() != lease.ID() || r.leased != time.Minute) {
			t.Errorf("%+v for %s", r.lease, r.leased)
		}
		if next := r.next; failed == nil && (next == nil) == (r.kind == settleNext) || next != nil && (next.end != fdbpq.Max || next.limit < 1) {
			t.Errorf("%q asks for %+v", body, next)
		}
	})
}

// A genuine token with unexpected content, such as that of another version, gives a pop
// within bounds or is refused.
func FuzzToken(f *testing.F) {
	var s sealer
	s.init([]byte("secret"))
	lease, err := fdbpq.ParseLease("jobs", []byte{21, 1, 21, 2, 21, 5, 21, 5, 21, 1, 1, 'r', 0})
	if err != nil {
		f.Fatal(err)
	}
	for _, pop := range []terms{{band: fdbpq.AllPriorities, lease: time.Minute}, {end: fdbpq.Max, band: fdbpq.Band{Low: -5, High: 5}, lease: time.Minute}} {
		raw, err := base64.RawURLEncoding.DecodeString(string(s.append(nil, &lease, pop)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw[:len(raw)-macSize])
	}
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		token := base64.RawURLEncoding.EncodeToString(s.seal(slices.Clip(body), "jobs", body))
		lease, pop, failed := s.open("jobs", token)
		if failed != nil {
			checkRefusal(t, failed)
			return
		}
		if pop.lease <= 0 || pop.lease > fdbpq.MaxLease || pop.band.Low > pop.band.High || lease.Queue != "jobs" {
			t.Errorf("%x is opened to %+v, %+v", body, lease, pop)
		}
	})
}

// The same for the bodies and headers of all other requests.
func FuzzRequest(f *testing.F) {
	f.Add("list", []byte(`{"limit":100,"after":"FQEVAgE","state":"ready","bodies":true}`), "PQ-Wait")
	f.Add("list", []byte(`{"state":"dead"}`), "X-Mine")
	f.Add("get.FQEVAgE", []byte("x"), "X-Mine")
	f.Add("move.FQEVAgE.5", []byte(nil), "PQ-Id")
	f.Add("admin.config", []byte(`{"dead_letter":"_sys"}`), "X-Mine")
	f.Add("keys", []byte(`{"after":"\u00e9","limit":5}`), "X-Mine")
	f.Add("key.%C3%A9", []byte(nil), "X-Mine")
	f.Add("admin.key.%FF", []byte(`{"limit":null}`), "X-Mine")
	f.Add("admin.purge", []byte(" "), "X-Mine")
	w := &wire{}
	var err error
	if w.grammar, err = subjects.New("pq"); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, verb string, body []byte, key string) {
		for _, subject := range []string{"pq.jobs." + verb, "pq._sys.list", "pq._sys.info"} {
			s, err := w.grammar.Parse(subject)
			if err != nil {
				continue
			}
			r := newWork(verbOf(s.Verb), s, &nats.Msg{Data: body, Header: nats.Header{key: {"1"}}})
			switch r.(type) {
			case *push, *importing, *pop, *settlement:
				continue // have targets of their own
			}
			if failed := r.read(w); failed != nil {
				checkRefusal(t, failed)
				continue
			}
			offset, limit := int64(0), 1
			switch l := r.(type) {
			case *list:
				limit = l.page.Limit
			case *queues:
				if limit = l.limit; l.offset != nil {
					offset = *l.offset
				}
			}
			if offset < 0 || limit < 1 || limit > fdbpq.MaxBatch {
				t.Errorf("%s %q: %+v", subject, body, r)
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
		d := &dispatcher{prefix: prefix}
		subject := prefix + "." + rest
		if v := d.meant(subject); verbs[v.Index] != v {
			t.Errorf("%q means %+v", subject, v)
		}
		if queue := d.meantQueue(subject); queue != "" && subjects.CheckQueue(queue) != nil {
			t.Errorf("%q means the queue %q", subject, queue)
		}
	})
}

// Stored headers are read as they were written.
func FuzzKeptHeaders(f *testing.F) {
	f.Add([]byte("a: b\r\na: c\r\nd"))
	f.Add([]byte("\r\n: \r\n"))
	f.Fuzz(func(t *testing.T, block []byte) {
		header := make(nats.Header)
		addHeaders(header, block)
		n := 0
		for _, values := range header {
			n += len(values)
		}
		if lines := strings.Count(strings.TrimSuffix(string(block), "\r\n"), "\r\n") + 1; len(block) > 0 && n != lines {
			t.Errorf("%q: %d headers of %d lines", block, n, lines)
		}
	})
}

// Whatever an import says, it is refused, or its item gets a valid place.
func FuzzImport(f *testing.F) {
	id := "FBUBAcE-HBW1WXj2AA"
	f.Add(id, "PQ-Expires", "2030-01-02T15:04:05Z", []byte("x"))
	f.Add(id, "PQ-Deliveries", "-1", []byte(nil))
	f.Add(id, "PQ-Fence", "4611686018427387905", []byte("x"))
	f.Add(id, "PQ-Dead-Reason", "why", []byte("x"))
	f.Add(id, "PQ-Priority", "+5", []byte("x"))
	f.Add(id, "Nats-Time-Stamp", "now", []byte("x"))
	f.Add("x", "X-Mine", "y", []byte("x"))
	f.Fuzz(func(t *testing.T, id, key, value string, body []byte) {
		w := &wire{}
		w.answerLimit.maxPayload.Store(2*protocol.MaxPayload + 2*int64(len(value))) // whether it fits is the server's to say
		r := new(importing)
		r.Msg, r.Arrived = &nats.Msg{Data: body, Header: nats.Header{"PQ-Id": {id}, key: {value}}}, time.Now()
		if failed := r.read(w); failed != nil {
			checkRefusal(t, failed)
			return
		}
		i := r.item
		if i.ID.String() != r.Msg.Header.Get("PQ-Id") || i.Deliveries < 0 || i.Fence < 0 || i.Deliveries > maxNumber || i.Fence > maxNumber || i.Pushed.IsZero() && key != "Nats-Time-Stamp" {
			t.Errorf("%q: %q gives %+v", key, value, i)
		}
		if dead := i.Dead; dead != nil && len(dead.Reason)+len(dead.Origin)+len(dead.OriginID) > maxDeadText {
			t.Errorf("%q: %q gives %+v", key, value, dead)
		}
	})
}
