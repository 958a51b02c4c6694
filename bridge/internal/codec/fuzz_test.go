package codec

import (
	"encoding/base64"
	"reflect"
	"slices"
	"strconv"
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
		read := ReadPop
		if peek {
			read = ReadPeek
		}
		p, failed := read(fdbpq.Max, &nats.Msg{Data: body, Header: nats.Header{key: {value}}})
		if failed != nil {
			checkRefusal(t, failed)
			return
		}
		if p.Limit < 1 || p.Limit > fdbpq.MaxBatch || p.Wait < 0 || p.Wait > protocol.MaxWait || p.Lease < 0 || p.Lease > fdbpq.MaxLease ||
			p.MaxBytes < 0 || p.MaxBytes > fdbpq.MaxBatchBytes || len(p.ID) > fdbpq.MaxMsgID || p.Band.Low > p.Band.High {
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
	w := new(Wire)
	w.Sealer.init([]byte("secret"))
	f.Fuzz(func(t *testing.T, key, first, second string) {
		if strings.ContainsAny(first+second, "\n") || strings.ContainsAny(key, ":\n") || key == "" {
			return // no header of a message
		}
		w.Limit.maxPayload.Store(protocol.MaxPayload)
		item, failed := w.ReadPush(&subjects.Subject{Queue: "jobs"}, &nats.Msg{Header: nats.Header{key: {first, second}}})
		if failed != nil {
			checkRefusal(t, failed)
			return
		}
		header := make(nats.Header)
		AddHeaders(header, item.Headers)
		if len(header) > 0 && !slices.Equal(header[key], []string{first, second}) {
			t.Errorf("%q: %q, %q came back as %q", key, first, second, header)
		}
		travels := !strings.HasPrefix(key, "PQ-") && !strings.HasPrefix(key, "Nats-") && key != "Status"
		if travels != (len(header) > 0) && !strings.HasPrefix(key, "Nats-") {
			t.Errorf("%q came back as %q", key, header)
		}
	})
}

// Any settlement is read or refused, in a frame as alone. A changed token is refused.
func FuzzSettlement(f *testing.F) {
	w, err := New("pq", []byte("secret"), func() int64 { return 1 << 20 })
	if err != nil {
		f.Fatal(err)
	}
	w.Limit.Refresh()
	lease, err := fdbpq.ParseLease("jobs", []byte{21, 1, 21, 2, 21, 5, 21, 5, 21, 1, 1, 'r', 0})
	if err != nil {
		f.Fatal(err)
	}
	pop := Terms{End: fdbpq.Max, Band: fdbpq.Band{Low: -5, High: 1 << 40}, Lease: time.Minute}
	token := string(w.Sealer.Append(nil, &lease, pop))
	for _, body := range []string{"", "+ACK", "+OK", "-NAK", `-NAK {"delay":5}`, "-NAK 5s", "+WPI", "+TERM why", "+BACK", "+BACK why", "+NXT 5", `+NXT {"lease":5}`, "+ACK x", "+ACK \x00\n", "0 0\n\n",
		"8 4\nPQ-Ack:\n+ACK\n0 0\n"} {
		f.Add([]byte(body), token, "jobs")
	}
	f.Add([]byte(nil), token[1:], "jobs")
	f.Add([]byte(nil), token[:5]+"\n"+token[5:], "jobs")
	f.Add([]byte(nil), token, "job")
	f.Add([]byte(nil), "AAAA", "jobs")
	f.Fuzz(func(t *testing.T, body []byte, given, queue string) {
		r, failed := w.ReadSettlement(&subjects.Subject{Queue: queue, Verb: subjects.Ack, Token: given}, &nats.Msg{Data: body})
		if failed != nil {
			checkRefusal(t, failed)
		}
		opened := failed != ErrToken
		if genuine := given == token && queue == "jobs"; opened != genuine {
			t.Errorf("token %q of %q: opened %v", given, queue, opened)
		}
		if opened && failed == nil && (r.Lease.Fence != lease.Fence || r.Lease.ID() != lease.ID() || r.Leased != time.Minute) {
			t.Errorf("%+v for %s", r.Lease, r.Leased)
		}
		if next := r.Next; failed == nil && (next == nil) == (r.Kind == SettleNext) || next != nil && (next.End != fdbpq.Max || next.Limit < 1) {
			t.Errorf("%q asks for %+v", body, next)
		}
		readFrames(t, w, body, 2)
		if given == token && queue == "jobs" {
			frame := protocol.AppendFrame(nil, []byte("PQ-Ack: pq.jobs.ack.c."+token+"\n"), body)
			checkFramed(t, readFrames(t, w, frame, 1)[0], r, failed)
		}
	})
}

// readFrames reads a bundle of n settlements in frames, nil if it cannot be read.
func readFrames(t *testing.T, w *Wire, body []byte, n int) (all []BundledSettlement) {
	t.Helper()
	sent, failed := w.OpenSettlements("jobs", &nats.Msg{Data: body, Header: nats.Header{protocol.HeaderFrames: {"true"}}}, []string{strconv.Itoa(n)})
	if failed != nil {
		checkRefusal(t, failed)
		return nil
	}
	for one := range sent.Read() {
		all = append(all, *one)
	}
	if len(all) != n {
		t.Errorf("%q has %d settlements, expected %d", body, len(all), n)
	}
	return all
}

// checkFramed checks that a settlement in a frame is read as alone, but for +NXT.
func checkFramed(t *testing.T, framed BundledSettlement, alone Settlement, failed *failure.Failure) {
	t.Helper()
	switch {
	case alone.Kind == SettleNext:
		if framed.Failure == nil || framed.Failure.Code != 400 {
			t.Errorf("a frame with +NXT is refused for %v", framed.Failure)
		}
	case failed != nil || framed.Failure != nil:
		if failed == nil || framed.Failure == nil || *failed != *framed.Failure {
			t.Errorf("the frame is refused for %v, the settlement alone for %v", framed.Failure, failed)
		}
	case !reflect.DeepEqual(framed.Settlement, alone):
		t.Errorf("the frame has %+v, the settlement alone %+v", framed.Settlement, alone)
	}
}

// A genuine token with unexpected content, such as the token of another version, gives a pop
// within bounds or is refused.
func FuzzToken(f *testing.F) {
	var s Sealer
	s.init([]byte("secret"))
	lease, err := fdbpq.ParseLease("jobs", []byte{21, 1, 21, 2, 21, 5, 21, 5, 21, 1, 1, 'r', 0})
	if err != nil {
		f.Fatal(err)
	}
	for _, pop := range []Terms{{Band: fdbpq.AllPriorities, Lease: time.Minute}, {End: fdbpq.Max, Band: fdbpq.Band{Low: -5, High: 5}, Lease: time.Minute}} {
		raw, err := base64.RawURLEncoding.DecodeString(string(s.Append(nil, &lease, pop)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw[:len(raw)-macSize])
	}
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		token := base64.RawURLEncoding.EncodeToString(s.seal(slices.Clip(body), "jobs", body))
		lease, pop, failed := s.Open("jobs", token)
		if failed != nil {
			checkRefusal(t, failed)
			return
		}
		if pop.Lease <= 0 || pop.Lease > fdbpq.MaxLease || pop.Band.Low > pop.Band.High || lease.Queue != "jobs" {
			t.Errorf("%x is opened to %+v, %+v", body, lease, pop)
		}
	})
}

// Stored headers are read as they were written.
func FuzzKeptHeaders(f *testing.F) {
	f.Add([]byte("a: b\r\na: c\r\nd"))
	f.Add([]byte("\r\n: \r\n"))
	f.Fuzz(func(t *testing.T, block []byte) {
		header := make(nats.Header)
		AddHeaders(header, block)
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
		w := new(Wire)
		w.Limit.maxPayload.Store(2*protocol.MaxPayload + 2*int64(len(value))) // whether it fits is the server's to say
		m := &nats.Msg{Data: body, Header: nats.Header{"PQ-Id": {id}, key: {value}}}
		i, failed := w.ReadImport("jobs", m, time.Now())
		if failed != nil {
			checkRefusal(t, failed)
			return
		}
		if i.ID.String() != m.Header.Get("PQ-Id") || i.Deliveries < 0 || i.Fence < 0 || i.Deliveries > maxNumber || i.Fence > maxNumber || i.Pushed.IsZero() && key != "Nats-Time-Stamp" {
			t.Errorf("%q: %q gives %+v", key, value, i)
		}
		if dead := i.Dead; dead != nil && len(dead.Reason)+len(dead.Origin)+len(dead.OriginID) > maxDeadText {
			t.Errorf("%q: %q gives %+v", key, value, dead)
		}
	})
}
