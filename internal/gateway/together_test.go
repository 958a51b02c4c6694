package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// most is how many messages of one kind a queue has under way. Further requests wait.
const most = 16

// begin sends a request through no network of its own. The answer comes later.
func (s *site) begin(ctx context.Context, method, path, body string, header ...string) <-chan reply {
	request := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	told := make(chan reply, 1)
	go func() {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, request)
		told <- reply{w.Code, w.Header(), w.Body.String()}
	}()
	return told
}

// sent waits until so many messages have left since there were before.
func (s *site) sent(before uint64, n int) {
	s.Helper()
	nc := s.wire.Load().nc
	s.await(fmt.Sprintf("%d messages have left", n), func() bool { return nc.Stats().OutMsgs == before+uint64(n) })
}

// said is an answer without what differs between two stores, or two times.
func said(r reply) string {
	text := fmt.Sprintln(r.code, r.body)
	for _, differs := range []string{`"id":"[0-9a-zA-Z_-]+"`, `"lease_expires":"[^"]+"`} {
		text = regexp.MustCompile(differs).ReplaceAllString(text, differs)
	}
	return text
}

// asking is a request.
type asking struct {
	path, body string
	header     []string
}

// distant has a gateway speak through a network that can hold answers back.
func (s *site) distant() *testenv.Proxy {
	s.Helper()
	network := testenv.NewProxy(s, s.env.NATS.URL())
	far, err := nats.Connect(network.URL(), append(s.ConnectOptions(), nats.Timeout(testenv.Patience()))...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(far.Close)
	s.Connect(far)
	return network
}

// bundled sends requests behind as many others as may be under way, so that they go together, in their order. It returns the answers
// to them, and in how many messages they left.
func (s *site) bundled(network *testenv.Proxy, of func(*wire) *together, queue string, before asking, all []asking) (answers []reply, messages uint64) {
	s.Helper()
	w := s.wire.Load()
	release := network.HoldAnswers()
	out := w.nc.Stats().OutMsgs
	var first, rest []<-chan reply
	for i := range most {
		first = append(first, s.begin(s.Context(), "POST", before.path, before.body))
		s.sent(out, i+1)
	}
	for i, a := range all {
		rest = append(rest, s.begin(s.Context(), "POST", a.path, a.body, a.header...))
		s.await("a request waits", func() bool { return of(w).Waiting(queue) == i+1 })
	}
	release()
	for _, told := range first {
		if r := <-told; r.code != http.StatusOK {
			s.Errorf("%+v", r)
		}
	}
	for _, told := range rest {
		answers = append(answers, <-told)
	}
	return answers, w.nc.Stats().OutMsgs - out - most
}

// Each push has the answer that it would have had alone, word for word, whatever becomes of the pushes that it goes with.
func TestPushesTogetherAsAlone(t *testing.T) {
	t.Parallel()
	const config = `{"max_length":26,"dedup_limit":3}`
	var all []asking
	for _, query := range []string{
		"", "priority=5", "priority=-1&msg_id=a", "msg_id=a", "priority=1&msg_id=a", "delay=1h", "delay=soon", "delay=-1s", "ttl=-1%C2%B5s", "ttl=%C3%BC", "delay=1s&not_before=2030-01-02T15:04:05Z",
		"not_before=x", "key=k&weight=3", "weight=5", "key=" + strings.Repeat("k", 200), "key=%C3%BC&weight=1001", "unique=u&key=k", "unique=u&priority=-3&on_conflict=raise", "unique=u&key=l&on_conflict=replace",
		"unique=u&on_conflict=x", "unique_until=leased", "priority=9223372036854775807", "header=Season:autumn&header=Season:%C3%BC&header=a:%20b%20", "msg_id=" + strings.Repeat("m", 1100), "msg_id=b", "msg_id=c", "msg_id=d",
		"priority=1", "priority=2", "priority=3", "priority=4", "msg_id=a",
	} {
		all = append(all, asking{path: "/v1/queues/jobs/push?" + query, body: "about " + query})
	}
	all = append(all, asking{path: "/v1/queues/jobs/push?", body: "", header: []string{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}})
	before := asking{path: "/v1/queues/jobs/push", body: "x"}

	alone, crowd := open(t), open(t)
	network := crowd.distant()
	for _, s := range []*site{alone, crowd} {
		s.ok(nil, "PATCH", "/v1/queues/jobs/config", config)
		s.ok(nil, "POST", before.path, before.body) // the user may push without a priority
	}
	got, messages := crowd.bundled(network, func(w *wire) *together { return w.pushes }, "pq.jobs.push", before, all)
	if messages != 1 {
		t.Errorf("%d pushes left in %d messages, expected one", len(all), messages)
	}
	for range most {
		alone.ok(nil, "POST", before.path, before.body)
	}
	refused := 0
	for i, a := range all {
		want := alone.send("POST", a.path, a.body, a.header...)
		if said(got[i]) != said(want) || got[i].header.Get("Retry-After") != want.header.Get("Retry-After") {
			t.Errorf("%s: %salone %s", a.path, said(got[i]), said(want))
		}
		if want.code != http.StatusOK {
			refused++
		}
	}
	if refused < 15 {
		t.Errorf("%d pushes are refused, expected more of the table", refused)
	}
	for {
		var popped [2]shownItem
		for i, s := range []*site{alone, crowd} {
			if r := s.send("GET", "/v1/queues/jobs/peek", ""); r.code != http.StatusOK {
				continue
			}
			s.ok(&popped[i], "POST", "/v1/queues/jobs/pop?lease=queue", "")
		}
		a, b := popped[0], popped[1]
		if a.ID == "" && b.ID == "" {
			break
		}
		if string(a.Bytes()) != string(b.Bytes()) || a.Priority != b.Priority || a.Key != b.Key || fmt.Sprint(a.AllHeaders()) != fmt.Sprint(b.AllHeaders()) {
			t.Fatalf("the next item is %q %+v, alone %q %+v", b.Bytes(), b, a.Bytes(), a)
		}
	}
	if n := crowd.numbers("jobs"); n != alone.numbers("jobs") {
		t.Errorf("left are %+v, alone %+v", n, alone.numbers("jobs"))
	}
}

// Each settlement has the answer that it would have had alone.
func TestSettlementsTogetherAsAlone(t *testing.T) {
	t.Parallel()
	words := []string{
		"", "+ACK", "+OK", "+OK x", "-NAK", "-NAK 1h", `-NAK {"delay":0,"reason":"no wood"}`, `-NAK {"delay":"x"}`, "-NAK soon", "+BACK", "+BACK stopped", "+TERM", "+TERM no \u00fc way", "+WPI", "+WPI x",
		"nonsense", " +ACK", "+TERM " + strings.Repeat("r", 1900),
	}
	var sites [2]*site
	var leases [2][]string
	for i := range sites {
		s := open(t)
		for range words {
			s.ok(nil, "POST", "/v1/queues/jobs/push", "x")
		}
		for range words {
			var leased shownItem
			s.ok(&leased, "POST", "/v1/queues/jobs/pop?lease=1h", "")
			leases[i] = append(leases[i], url.QueryEscape(leased.Ack))
		}
		sites[i] = s
	}
	requests := func(i int) (all []asking) {
		for k, word := range words {
			all = append(all, asking{path: "/v1/queues/jobs/settle?ack=" + leases[i][k], body: word})
		}
		return append(all,
			asking{path: "/v1/queues/jobs/settle?ack=" + leases[i][0]}, // once more
			asking{path: "/v1/queues/jobs/settle?ack=" + leases[i][5], body: "+WPI"},
			asking{path: "/v1/queues/jobs/settle?ack=pq.jobs.ack.c.t", body: "+ACK"},
		)
	}
	alone, crowd := sites[0], sites[1]
	network := crowd.distant()
	extend := asking{path: "/v1/queues/jobs/settle?ack=" + leases[1][len(words)-1], body: "+WPI"}
	got, messages := crowd.bundled(network, func(w *wire) *together { return w.settlements }, "pq.jobs.ack.bundle.settle", extend, requests(1))
	if messages != 1 {
		t.Errorf("%d settlements left in %d messages, expected one", len(got), messages)
	}
	for i, a := range requests(0) {
		if want := alone.send("POST", a.path, a.body); said(got[i]) != said(want) {
			t.Errorf("%.100q: %salone %s", a.body, said(got[i]), said(want))
		}
	}
	if a, b := alone.numbers("jobs"), crowd.numbers("jobs"); a != b {
		t.Errorf("left are %+v, alone %+v", b, a)
	}
	// What is no line of a bundle has a message of its own.
	for _, word := range []string{"+ACK\n", "+ACK\r", "+ACK x", "+TERM " + strings.Repeat("r", 3000)} {
		if r := crowd.send("POST", "/v1/queues/jobs/settle?ack="+leases[1][3], word); r.code != alone.send("POST", "/v1/queues/jobs/settle?ack="+leases[0][3], word).code {
			t.Errorf("%.20q: %+v", word, r)
		}
	}
}

// office is a gateway before a stand-in for a bridge. The test sees each request, and answers it when it likes.
type office struct {
	*site
	nats     *testenv.Server
	requests chan *nats.Msg
}

func openOffice(t *testing.T, allowed ...string) *office {
	t.Helper()
	permissions := &server.Permissions{Publish: &server.SubjectPermission{Allow: append(allowed, "$SRV.>")}}
	if allowed == nil {
		permissions = nil
	}
	o := &office{nats: testenv.NATS(t, users(&server.User{Username: "bridge", Password: "p"},
		&server.User{Username: "console", Password: "p", Permissions: permissions})), requests: make(chan *nats.Msg, 10_000)}
	nc := o.nats.Connect(t, nats.UserInfo("bridge", "p"))
	if _, err := nc.ChanSubscribe("pq.>", o.requests); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	g, err := New(Options{Prefix: "pq", Changes: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	g.answers = testenv.Most
	g.Connect(o.nats.Connect(t, append(g.ConnectOptions(), nats.UserInfo("console", "p"))...))
	o.site = &site{TB: t, Gateway: g}
	return o
}

// next is the next request.
func (o *office) next() *nats.Msg {
	o.Helper()
	select {
	case m := <-o.requests:
		return m
	case <-testenv.Late():
		o.Fatal("no request has come")
		return nil
	}
}

func (o *office) answer(m *nats.Msg, with *nats.Msg) {
	o.Helper()
	if err := m.RespondMsg(&nats.Msg{Header: with.Header, Data: with.Data}); err != nil {
		o.Error(err)
	}
}

// push begins to push to a queue.
func (o *office) push(ctx context.Context, query string) <-chan reply {
	return o.begin(ctx, "POST", "/v1/queues/jobs/push?"+query, "x")
}

// pushes has as many pushes under way as there may be, and returns their requests.
func (o *office) pushes() (requests []*nats.Msg, told []<-chan reply) {
	o.Helper()
	for range most {
		told = append(told, o.push(o.Context(), ""))
		requests = append(requests, o.next())
	}
	return requests, told
}

// waits waits until so many pushes have not left yet.
func (o *office) waits(n int) {
	o.Helper()
	o.await(fmt.Sprintf("%d pushes wait", n), func() bool { return o.wire.Load().pushes.Waiting("pq.jobs.push") == n })
}

// pair has two pushes leave in one message, which it returns.
func (o *office) pair(queries ...string) (bundle *nats.Msg, told []<-chan reply) {
	o.Helper()
	requests, others := o.pushes()
	for i, query := range queries {
		told = append(told, o.push(o.Context(), query))
		o.waits(i + 1)
	}
	o.answer(requests[0], added)
	bundle = o.next()
	for _, m := range requests[1:] {
		o.answer(m, added)
	}
	for _, other := range others {
		<-other
	}
	return bundle, told
}

var added = &nats.Msg{Data: []byte(`{"type":"io.pq.v1.push_response","stream":"jobs","seq":7,"id":"x","priority":0}`)}

func failed(code, text, reason string) *nats.Msg {
	m := &nats.Msg{Header: nats.Header{"Nats-Service-Error-Code": {code}, "Nats-Service-Error": {text}}}
	if reason != "" {
		m.Header.Set(protocol.HeaderReason, reason)
	}
	return m
}

// What is wrong with a bundle, and not with a push, is no caller's: where nothing was done each goes alone. What holds for all of them each
// is told, and nothing is repeated.
func TestBundleIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		with  *nats.Msg
		again bool // each goes alone
		code  int
		text  string
	}{
		"not understood":        {with: failed("400", "header PQ-Each", ""), code: 400, text: "header PQ-Each"},
		"too large":             {with: failed("413", "too large", ""), again: true},
		"beyond a quota":        {with: failed("429", "2 requests", "busy"), again: true},
		"the store is full":     {with: failed("429", "the store is full", "store_full"), code: 429, text: "the store is full"},
		"the store is away":     {with: failed("503", "the store", ""), code: 503, text: "the store"},
		"nobody knows":          {with: failed("504", "perhaps", ""), code: 504, text: "perhaps"},
		"no bridge":             {with: &nats.Msg{Header: nats.Header{"Status": {"503"}}}, code: 503, text: "no bridge is there"},
		"not to be read":        {with: &nats.Msg{Data: []byte(`{"items":[`)}, code: 504, text: "cannot be read"},
		"of another number":     {with: &nats.Msg{Data: []byte(`{"items":[{"seq":1,"id":"x"}]}`)}, code: 504, text: "cannot be read"},
		"one item of it is not": {with: &nats.Msg{Data: []byte(`{"type":"io.pq.v1.push_response","stream":"jobs","seq":7,"items":[{"error":{"code":429,"err_code":30429,"description":"full of header PQ-Delay","reason":"full"}},{"error":{"code":429,"err_code":30429,"description":"full of header PQ-Delay","reason":"full"}}]}`)}, code: 429, text: "full of delay"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openOffice(t)
			bundle, told := o.pair("msg_id=a", "msg_id=b")
			if bundle.Subject != "pq.jobs.push" || bundle.Header.Get("PQ-Bundle") != "2" || bundle.Header.Get("PQ-Each") != "true" || len(bundle.Header) != 2 {
				t.Fatalf("%s %v %q", bundle.Subject, bundle.Header, bundle.Data)
			}
			o.answer(bundle, tc.with)
			if tc.again {
				var ids []string
				for range told {
					m := o.next()
					ids = append(ids, m.Header.Get("Nats-Msg-Id"))
					o.answer(m, added)
				}
				if slices.Sort(ids); !slices.Equal(ids, []string{"a", "b"}) {
					t.Errorf("alone went %q", ids)
				}
			}
			for _, one := range told {
				r := <-one
				if !tc.again {
					o.isRefusal(r, tc.code, tc.text, name)
				} else if r.code != http.StatusOK || r.body != string(added.Data)+"\n" {
					t.Errorf("%+v", r)
				}
			}
			if len(o.requests) > 0 {
				t.Errorf("repeated: %+v", (<-o.requests).Header)
			}
		})
	}
}

// A client that leaves before its push has left has pushed nothing. A client that leaves later does not know, and the pushes that its push goes with get
// their answers.
func TestClientLeavesABundle(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	requests, _ := o.pushes()
	var told []<-chan reply
	var leave []context.CancelFunc
	for i, id := range []string{"early", "late", "stays"} {
		ctx, cancel := context.WithCancel(t.Context())
		leave = append(leave, cancel)
		told = append(told, o.push(ctx, "msg_id="+id))
		o.waits(i + 1)
	}
	leave[0]()
	o.isRefusal(<-told[0], 503, "no answer in time: try again", "a push that waits")
	o.waits(2)
	o.answer(requests[0], added)
	bundle := o.next()
	if text := string(bundle.Data); strings.Contains(text, "early") || !strings.Contains(text, "late") || !strings.Contains(text, "stays") {
		t.Errorf("pushed %q", text)
	}
	after := o.push(t.Context(), "msg_id=after")
	o.waits(1)
	leave[1]()
	o.isRefusal(<-told[1], 504, "no answer: it was done, or it was not", "a push under way")
	o.answer(bundle, &nats.Msg{Data: []byte(`{"stream":"jobs","items":[{"seq":1,"id":"l","priority":0},{"seq":2,"id":"s","priority":0}]}`)})
	if r := <-told[2]; r.code != http.StatusOK || r.body != `{"type":"io.pq.v1.push_response","stream":"jobs","seq":2,"id":"s","priority":0}`+"\n" {
		t.Errorf("%+v", r)
	}
	o.answer(o.next(), added)
	<-after
}

// A bundle whose callers have all left is not under way any more.
func TestAllClientsLeaveABundle(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	requests, _ := o.pushes()
	ctx, leave := context.WithCancel(t.Context())
	for i := range 2 {
		o.push(ctx, "")
		o.waits(i + 1)
	}
	o.answer(requests[0], added)
	if bundle := o.next(); bundle.Header.Get("PQ-Bundle") != "2" {
		t.Fatalf("%v", bundle.Header)
	}
	o.push(t.Context(), "msg_id=after")
	o.waits(1)
	leave()
	if m := o.next(); m.Header.Get("Nats-Msg-Id") != "after" {
		t.Errorf("%v", m.Header)
	}
}

// When the connection is lost, a push under way was done or was not, and a push that has not left was not done.
func TestConnectionIsLostUnderABundle(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	_, others := o.pushes()
	waits := o.push(t.Context(), "")
	o.waits(1)
	o.wire.Load().nc.Close()
	o.Disconnect()
	for _, told := range others {
		o.isRefusal(<-told, 504, "no answer: it was done, or it was not", "a push under way")
	}
	o.isRefusal(<-waits, 503, "NATS is away, nothing was done", "a push that waited")
	o.isRefusal(<-o.push(t.Context(), ""), 503, "pqd is starting", "a push without a connection")
}

// A user who may not send what several go in has them go alone, and lacks no other right.
func TestRightsOfBundles(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		allowed []string
		paths   []string // of requests that go at the same time
		refused bool     // the server refuses a bundle, once
	}{
		"only one priority":        {allowed: []string{"pq.jobs.push.5"}, paths: []string{"push?priority=5", "push?priority=5"}},
		"no push without priority": {allowed: []string{"pq.jobs.push.*"}, paths: []string{"push?priority=5", "push?priority=4"}},
		"no bundled settlements":   {allowed: []string{"pq.jobs.ack.c.*"}, paths: []string{"settle?ack=pq.jobs.ack.c.t", "settle?ack=pq.jobs.ack.c.u"}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openOffice(t, tc.allowed...)
			for range 2 {
				var told []<-chan reply
				for i := range 40 {
					told = append(told, o.begin(t.Context(), "POST", "/v1/queues/jobs/"+tc.paths[i%len(tc.paths)], ""))
				}
				for left := len(told); left > 0; {
					m := o.next()
					n := 1
					answer := added
					if size := m.Header.Get("PQ-Bundle"); size != "" {
						if _, err := fmt.Sscan(size, &n); err != nil {
							t.Fatal(err)
						}
						answer = &nats.Msg{Data: []byte(`{"stream":"jobs","items":[` + strings.TrimSuffix(strings.Repeat(`{"seq":7,"id":"x","priority":0},`, n), ",") + `]}`)}
					}
					o.answer(m, answer)
					left -= n
				}
				for _, one := range told {
					if r := <-one; r.code != http.StatusOK {
						t.Errorf("%+v", r)
					}
				}
			}
			if may, known := o.wire.Load().settlements.rights.Of("pq.jobs.ack.bundle.settle"); may || known != tc.refused {
				t.Errorf("settlements may go together: %t, known %t", may, known)
			}
		})
	}
}
