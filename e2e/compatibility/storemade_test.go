package compatibility_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/tuple"
	"github.com/pqbridge/pqbridge/testenv"
)

// maker fills the store of a pqd with rows of all kinds, and notes what to ask about them later.
type maker struct {
	*testing.T
	nc     *nats.Conn
	later  []exchange
	queues []string
}

// writeStore writes a store of this program, with requests about it and the answers.
func writeStore(t *testing.T, dir string) {
	t.Helper()
	hub := testenv.NATS(t, func(o *server.Options) { o.JetStream, o.StoreDir = true, t.TempDir() })
	p := testenv.Daemon(t, remote(t, hub))
	m := &maker{T: t, nc: p.Connect(t)}
	m.plain()
	m.deadLetters()
	m.repetitions()
	m.results()
	m.keys()
	m.turns()
	m.rates()
	m.schedules()
	m.sources(hub)
	m.links()
	m.imported()
	p.Stop(t)
	purge(t, p.Dir)
	expectAllRows(t, p.Dir)

	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	pack(t, p.Dir, filepath.Join(dir, storeFile))
	writeAnswers(t, dir, recording{
		Made: laterThanTerms().UTC(), Exchanges: append(m.looks(), m.later...),
		Ready: map[string][]string{"plain": {"lowest", "zero", "moved", "highest"}, "fair": {"a", "b", "none"}},
	})
}

// writeAnswers writes how this program answers the requests about the store.
func writeAnswers(t *testing.T, dir string, r recording) {
	t.Helper()
	first := answers(t, unpack(t, filepath.Join(dir, storeFile)), r)
	second := answers(t, unpack(t, filepath.Join(dir, storeFile)), r)
	for i := range r.Exchanges {
		headers, _ := common(anyMap(first[i].Headers), anyMap(second[i].Headers)).(map[string]any)
		delete(headers, "Nats-Service-Error") // a text for people, which may change
		body := common(first[i].Body, second[i].Body)
		if object, is := body.(map[string]any); is {
			if explained, is := object["explain"].(map[string]any); is {
				delete(explained, "text") // for people, too
				delete(explained, "next")
			}
		}
		r.Exchanges[i].Answer = answer{Headers: headers, Body: body}
	}
	write(t, filepath.Join(dir, exchangesFile), marshal(t, r))
}

// do sends a request that must succeed, and returns the answer.
func (m *maker) do(subject, body string, headers ...string) *nats.Msg {
	m.Helper()
	reply := pqd.Request(m.T, m.nc, "pq."+subject, body, headers...)
	if reply.Header.Get("Status") != "" || reply.Header.Get("Nats-Service-Error") != "" || strings.Contains(string(reply.Data), `"error"`) {
		m.Fatalf("%s %q: %v %s", subject, body, reply.Header, reply.Data)
	}
	return reply
}

// push pushes an item and returns its id.
func (m *maker) push(subject, body string, headers ...string) (id string) {
	m.Helper()
	var pushed struct{ ID string }
	if err := json.Unmarshal(m.do(subject, body, headers...).Data, &pushed); err != nil || pushed.ID == "" {
		m.Fatalf("%s: no id, %v", subject, err)
	}
	return pushed.ID
}

// lease leases the first item of a queue, and returns its ack subject.
func (m *maker) lease(queue string, headers ...string) (ack string) {
	m.Helper()
	return m.do(queue+".pop.min", "", append(headers, "PQ-Lease", "12h")...).Reply
}

// queue has a queue with a configuration, at which later programs look.
func (m *maker) queue(name, config string) {
	m.Helper()
	m.queues = append(m.queues, name)
	m.do(name+".admin.config", config)
}

// ask notes a request for later.
func (m *maker) ask(subject, body string, headers ...string) {
	e := exchange{Subject: subject, Body: body}
	for pair := range slices.Chunk(headers, 2) {
		if e.Headers == nil {
			e.Headers = make(nats.Header)
		}
		e.Headers.Add(pair[0], pair[1])
	}
	m.later = append(m.later, e)
}

// looks are requests that change nothing: what there is in each queue.
func (m *maker) looks() []exchange {
	all := []exchange{{Subject: "pq._sys.list"}}
	for _, queue := range m.queues {
		all = append(all, exchange{Subject: "pq." + queue + ".info"}, exchange{Subject: "pq." + queue + ".keys"},
			exchange{Subject: "pq." + queue + ".schedules"}, exchange{Subject: "pq." + queue + ".sources"}, exchange{Subject: "pq." + queue + ".links"})
		for _, state := range []string{"ready", "delayed", "leased"} {
			all = append(all, exchange{Subject: "pq." + queue + ".list", Body: `{"state":"` + state + `","bodies":true,"attempts":true}`})
		}
	}
	return all
}

const decade = "87600h"

func (m *maker) plain() {
	m.queue("plain", `{"lease":"1m","dedup_window":"24h","max_deliveries":3,"backoff":{"delay":"1s"},"max_bytes":1000000,"hand_over":"*","expire_empty":"720h"}`)
	m.push("plain.push.6", "to be handed over")
	m.ask("pq.plain.push.6", "handed over", "PQ-Settle", m.lease("plain"))
	m.push("plain.push.-1", "to be leased")
	ack := m.lease("plain", "PQ-Holder", "worker 1")
	m.ask(ack, "+WPI")
	m.ask(ack, "")
	m.push("plain.push.-1", "to be late")
	m.ask(m.lease("plain"), `-NAK {"reason":"too hot"}`)
	m.push("plain.push.-9223372036854775808", "lowest", "Color", "red", "Color", "blue")
	m.push("plain.push", "zero", "Nats-Msg-Id", "a push")
	m.ask("pq.plain.push", "zero", "Nats-Msg-Id", "a push")
	m.push("plain.push.1", strings.Repeat("much", 8_250))
	m.push("plain.push.2", "delayed", "PQ-Delay", decade)
	m.push("plain.push.3", "mortal", "PQ-TTL", decade)
	m.do("plain.move."+m.push("plain.push.4", "moved")+".40", "")
	m.push("plain.push.9223372036854775807", "highest")
	m.push("plain.push.5", "unique", "PQ-Unique", "a value")
	m.ask("pq.plain.push.5", "again", "PQ-Unique", "a value")
}

func (m *maker) deadLetters() {
	m.queue("failed", `{"dead_letters_from":"failing"}`)
	m.queue("failing", `{"max_deliveries":2,"dead_letter":"failed"}`)
	m.push("failing.push.1", "given up", "PQ-Key", "k")
	m.do(strings.TrimPrefix(m.lease("failing"), "pq."), "+TERM it is wrong")
	id := m.push("failing.push.2", "failed twice")
	for range 2 {
		m.do(strings.TrimPrefix(m.lease("failing", "PQ-Holder", "worker 2"), "pq."), `-NAK {"reason":"no luck"}`)
	}
	m.ask("pq.failing.get."+id, "")
	m.ask("pq.failed.pop.min", "", "PQ-Lease", "1m")
}

func (m *maker) results() {
	m.queue("asked", `{"result_bytes":10000}`)
	ask := []string{"PQ-Result-TTL", "168h"}
	done := m.push("asked.push.1", "done", ask...)
	m.do(strings.TrimPrefix(m.lease("asked"), "pq."), "+ACK painted")
	large := m.push("asked.push.2", "much", ask...)
	m.do(strings.TrimPrefix(m.lease("asked"), "pq."), "+ACK "+strings.Repeat("much", 2_000))
	cancelled := m.push("asked.push.3", "unwanted", ask...)
	m.do("asked.cancel."+cancelled, `{"reason":"not wanted"}`)
	dead := m.push("asked.push.4", "wrong", ask...)
	m.do(strings.TrimPrefix(m.lease("asked"), "pq."), "+TERM it is wrong")
	goesOn := m.push("asked.push.5", "begun", ask...)
	ack := m.lease("asked", "PQ-Holder", "worker 3")
	m.do(strings.TrimPrefix(ack, "pq."), "+WPI 3 of 9")
	for _, id := range []string{done, large, cancelled, dead, goesOn} {
		m.ask("pq.asked.result."+id, "")
	}
	m.ask("pq.asked.get."+goesOn, "")
	m.ask("pq.asked.cancel."+done, "")
	m.ask(ack, "+WPI 4 of 9")
	m.ask("pq.asked.get."+goesOn, "")
	m.ask(ack, "+ACK at last")
	m.ask("pq.asked.result."+goesOn, "")
}

func (m *maker) repetitions() {
	m.queue("repeated", `{"dedup_window":"24h"}`)
	m.push("repeated.push.1", "popped")
	m.push("repeated.push.2", "leased")
	m.push("repeated.push.3", "left")
	m.do("repeated.pop.min", "", "Nats-Msg-Id", "a pop")
	m.ask("pq.repeated.pop.min", "", "Nats-Msg-Id", "a pop", "PQ-Repeat", "true")
	m.do("repeated.pop.min", "", "Nats-Msg-Id", "a lease", "PQ-Lease", "12h")
	m.ask("pq.repeated.pop.min", "", "Nats-Msg-Id", "a lease", "PQ-Lease", "12h", "PQ-Repeat", "true")
	m.do("repeated.pop.min", "", "Nats-Msg-Id", "the last one")
	reply := pqd.Request(m.T, m.nc, "pq.repeated.pop.min", "", "Nats-Msg-Id", "of none", "PQ-Repeat", "true")
	if reply.Header.Get("Status") != "404" {
		m.Fatalf("a pop of an empty queue: %v", reply.Header)
	}
	for range 100 { // whose places are a long answer
		m.push("repeated.push.0", "one of many")
	}
	m.do("repeated.pop.min", "", "Nats-Msg-Id", "many", "PQ-Bundle", "100", "PQ-Lease", "12h")
	m.push("repeated.push.4", "for others")
	m.ask("pq.repeated.pop.min", "", "Nats-Msg-Id", "of none", "PQ-Repeat", "true")
}

func (m *maker) keys() {
	m.queue("ordered", `{"key_order":true}`)
	m.push("ordered.push.1", "begun", "PQ-Key", "a")
	m.push("ordered.push.2", "behind it", "PQ-Key", "a")
	m.do(strings.TrimPrefix(m.lease("ordered"), "pq."), "-NAK")
	m.push("ordered.push.1", "held", "PQ-Key", "b")
	m.push("ordered.push.2", "behind that", "PQ-Key", "b")
	m.do("ordered.admin.key.c", `{"paused":true,"weight":3}`)
	m.push("ordered.push.-1", "paused", "PQ-Key", "c")
	acks := []string{m.lease("ordered"), m.lease("ordered")}
	m.do(strings.TrimPrefix(acks[0], "pq."), "-NAK")
	m.ask("pq.ordered.pop.min", "", "PQ-Lease", "1m")
	m.ask("pq.ordered.pop.min", "", "PQ-Lease", "1m")
	m.ask(acks[1], "+NXT")

	m.queue("limited", `{"key_limit":2}`)
	for _, body := range []string{"one", "two", "three"} {
		m.push("limited.push", body, "PQ-Key", "a")
	}
	ack := m.lease("limited")
	m.lease("limited")
	m.ask("pq.limited.pop.min", "", "PQ-Lease", "1m")
	m.ask(ack, "+NXT")
}

func (m *maker) turns() {
	m.queue("fair", `{"fair":"priority"}`)
	for _, key := range []string{"a", "b"} {
		for range 4 {
			m.push("fair.push", key, "PQ-Key", key, "PQ-Weight", "2")
		}
	}
	m.push("fair.push", "none")
	m.push("fair.push", "none")
	for range 3 {
		m.do("fair.pop.min", "")
	}
	for range 4 {
		m.ask("pq.fair.pop.min", "", "PQ-Lease", "1m")
	}
}

func (m *maker) rates() {
	m.queue("rated", `{"rate":"3/24h","key_rate":"1/24h"}`)
	for range 2 {
		m.push("rated.push", "of a", "PQ-Key", "a")
		m.push("rated.push", "of b", "PQ-Key", "b")
	}
	m.do("rated.pop.min", "")
	m.ask("pq.rated.key.a", "")
	m.ask("pq.rated.pop.min", "")
	m.ask("pq.rated.pop.min", "")
}

func (m *maker) schedules() {
	m.queue("scheduled", `{"strict":true}`)
	m.do("scheduled.admin.schedule.yearly", `{"spec":"0 30 2 29 2 *","zone":"Europe/Berlin","item":{"payload":"leap","priority":7,"headers":{"A":"b"}},"catch_up":"8760h"}`)
	m.do("scheduled.admin.schedule.often", `{"spec":"@every 8000h","overlap":"skip","missed":"all"}`)
	m.push("scheduled.admin.schedule.often.run", "")
	m.do("scheduled.admin.schedule.soon", `{"spec":"@every 1s","count":1,"item":{"payload":"soon","priority":-5}}`)
	m.do("scheduled.pop.min", `{"max":-1}`, "PQ-Wait", "1m")
	m.ask("pq.scheduled.schedule.yearly", "")
	m.ask("pq.scheduled.admin.schedule.often.pause", "")
	m.ask("pq.scheduled.pop.min", "")
}

// remote lets a queue read a stream of a server; it is the setting.
func remote(t *testing.T, hub *testenv.Server) (setting string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "remotes.json")
	text := fmt.Sprintf(`{"hub":{"url":%q,"streams":{"ORDERS":{"read":["fed"]}}}}`, hub.URL())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "PQ_REMOTES=" + file
}

func (m *maker) sources(hub *testenv.Server) {
	js, err := jetstream.New(hub.Connect(m.T))
	if err == nil {
		_, err = js.CreateStream(m.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	}
	if err != nil {
		m.Fatal(err)
	}
	for i, prio := range []string{"3", "none", "5"} { // the second one goes to the dead letters
		msg := &nats.Msg{Subject: fmt.Sprint("orders.", i), Header: nats.Header{"Prio": {prio}}, Data: []byte("order " + prio)}
		if _, err := js.PublishMsg(m.Context(), msg); err != nil {
			m.Fatal(err)
		}
	}
	m.queue("unfit", `{"dead_letters_from":"fed"}`)
	m.queue("fed", `{"dead_letter":"unfit"}`)
	m.do("fed.admin.source.orders", `{"remote":"hub","stream":"ORDERS","map":{"priority":{"header":"Prio"},"key":{"token":2}}}`)
	testenv.Await(m.T, "the source has read the stream", func() bool {
		var source struct {
			Seq int
		}
		return json.Unmarshal(m.do("fed.admin.source.orders", "").Data, &source) == nil && source.Seq == 3
	})
	m.do("fed.admin.source.orders.pause", "")
	m.ask("pq.fed.pop.min", "", "PQ-Lease", "1m")
	m.ask("pq.fed.admin.source.orders.resume", `{"from_seq":2}`)
}

func (m *maker) links() {
	const taker = "0123456789abcdef0123456789abcdef"
	m.queue("giving", `{}`)
	m.push("giving.push.1", "held")
	m.push("giving.push.2", "given later")
	m.do("giving.admin.link.away", `{"to":"`+taker+`"}`)
	first := `{"taker":"` + taker + `","done":0,"batch":"","max":1}`
	m.do("giving.link.away", first)
	m.ask("pq.giving.link.away", first)
}

func (m *maker) imported() {
	id := m.push("gone.push.4", "imported")
	m.do("gone.admin.delete", "")
	m.queue("imported", `{}`)
	m.do("imported.import", "imported", "PQ-Id", id, "PQ-Fence", "1000000", "PQ-Deliveries", "2")
	m.ask("pq.imported.pop.min", "", "PQ-Lease", "1m")
}

// purge clears what is left of deleted queues, and leaves a purged generation behind that nobody has
// cleared yet.
func purge(t *testing.T, dir string) {
	t.Helper()
	inStore(t, dir, func(db kv.DB) error {
		store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{Exclusive: true, Strict: true, Wall: laterThanTerms})
		for more := true; more && err == nil; {
			more, err = store.CollectGarbage(t.Context())
		}
		if err != nil {
			return err
		}
		return db.Update(t.Context(), func(tx kv.Tx) error {
			q := store.Queue("purged")
			if _, err := q.Push(tx, fdbpq.NewItem{Payload: []byte("garbage")}); err != nil {
				return err
			}
			_, err := q.Purge(tx)
			return err
		})
	})
}

// laterThanTerms is a time at which pqd's terms as the one that sweeps are over.
func laterThanTerms() time.Time { return time.Now().Add(10 * time.Second) }

func inStore(t *testing.T, dir string, do func(kv.DB) error) {
	t.Helper()
	db, err := local.Open(dir, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(do(db), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// never are rows that such a store never has: those that live as long as one pop of the recipe, and one for processes that share a store.
var never = []string{"SpaceRequest", "SpaceResult", "SpaceFinishes"}

// expectAllRows fails unless the store has rows of each space that the core names.
func expectAllRows(t *testing.T, dir string) {
	t.Helper()
	there := make(map[string]bool)
	inStore(t, dir, func(db kv.DB) error {
		return db.View(t.Context(), func(r kv.Reader) error {
			rows, err := r.Range([]byte{0}, []byte{0xff}, kv.RangeOptions{Limit: 1 << 20})
			for _, row := range rows {
				if space, _, err := tuple.ConsumeString(row.Key); err == nil {
					there[space] = true
				}
			}
			return err
		})
	})
	for name, space := range spaces(t) {
		if !there[space] && !slices.Contains(never, name) {
			t.Errorf("the store has no row of %s (%q)", name, space)
		}
	}
}

// spaces are the names of the kinds of rows, from the core's table.
func spaces(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../fdbpq/internal/layout/keys.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	ast.Inspect(file, func(node ast.Node) bool {
		spec, is := node.(*ast.ValueSpec)
		if !is || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Space") {
			return true
		}
		if text, is := spec.Values[0].(*ast.BasicLit); is {
			if found[spec.Names[0].Name], err = strconv.Unquote(text.Value); err != nil {
				t.Fatal(err)
			}
		}
		return true
	})
	if len(found) < 40 {
		t.Fatalf("layout/keys.go names %d kinds of rows", len(found))
	}
	return found
}
