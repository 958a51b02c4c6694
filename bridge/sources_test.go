package bridge_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// fed is a bridge whose queue jobs is fed from a stream of another server.
type fed struct {
	*client
	server *testenv.Server
	dir    string // of its streams
	js     jetstream.JetStream
	next   int       // number of the next message
	asked  chan bool // somebody connects to the remote that says nothing
}

// feeding starts a bridge, and a server with a stream. Stops are believed at once.
func feeding(t *testing.T, config jetstream.StreamConfig, changes ...func(*server.Options)) *fed {
	t.Helper()
	return feedingWith(t, chosen(nil), config, changes...)
}

func feedingWith(t *testing.T, options bridge.Options, config jetstream.StreamConfig, changes ...func(*server.Options)) *fed {
	t.Helper()
	f := &fed{dir: t.TempDir(), next: 1, asked: make(chan bool, 1)}
	silence := make(chan struct{})
	t.Cleanup(func() { close(silence) })
	f.server = testenv.NATS(t, append(changes, func(o *server.Options) { o.JetStream, o.StoreDir, o.JetStreamMaxStore = true, f.dir, 4<<30 })...)
	options.Remotes = func() map[string]bridge.Remote {
		return map[string]bridge.Remote{"hub": {
			Connect: func(o ...nats.Option) (*nats.Conn, error) { return dial(f.server.URL(), o) },
			Read:    map[string][]string{"ORDERS": {"jobs", "jobs-x", "t.jobs"}},
		}, "silent": {
			Connect: func(...nats.Option) (*nats.Conn, error) {
				select {
				case f.asked <- true:
				default:
				}
				<-silence
				return nil, nats.ErrTimeout
			},
			Read: map[string][]string{"ORDERS": {"jobs"}},
		}}
	}
	f.client = serve(t, bridge.Hold(options, time.Millisecond))
	f.connect()
	config.Name, config.Subjects = "ORDERS", []string{"orders.>"}
	f.make(config)
	return f
}

func (f *fed) connect() {
	f.Helper()
	js, err := jetstream.New(f.server.Connect(f.TB), jetstream.WithDefaultTimeout(testenv.Patience()))
	if err != nil {
		f.Fatal(err)
	}
	f.js = js
}

func (f *fed) make(config jetstream.StreamConfig) {
	f.Helper()
	testenv.AwaitAnswer(f.TB, "the stream is made", func(ctx context.Context) bool { // the files of one that was deleted may still be there
		_, err := f.js.CreateStream(ctx, config)
		return err == nil
	})
}

// consumer is the name of the source's consumer, if the source takes.
func (f *fed) consumer() string { return "pq-" + f.env.Store.ID() + "-jobs=orders" }

// publish publishes n messages with their numbers.
func (f *fed) publish(n int, header ...string) {
	f.Helper()
	f.publishTo("orders.eu.new", n, header...)
}

func (f *fed) publishTo(subject string, n int, header ...string) {
	f.Helper()
	for range n {
		m := &nats.Msg{Subject: subject, Data: []byte(strconv.Itoa(f.next)), Header: h(header...)}
		if _, err := f.js.PublishMsg(f.Context(), m); err != nil {
			f.Fatal(err)
		}
		f.next++
	}
}

// set makes or changes the source.
func (f *fed) set(object string) protocol.Source {
	f.Helper()
	return ofFed[protocol.Source](f, "pq.jobs.admin.source.orders", object)
}

func ofFed[T any](f *fed, subject, body string) T {
	f.Helper()
	return object[T](f.client, subject, body)
}

// copying is the source of most tests.
const copying = `{"remote":"hub","stream":"ORDERS"}`

func (f *fed) shown() protocol.Source {
	f.Helper()
	return ofFed[protocol.Source](f, "pq.jobs.admin.source.orders", "")
}

// state waits for a state of the source, and one reason.
func (f *fed) state(state, reason string) (s protocol.Source) {
	f.Helper()
	testenv.Await(f.TB, "the source is "+state+" "+reason, func() bool {
		s = f.shown()
		return s.State == state && strings.Contains(s.Reason, reason)
	})
	return s
}

// at waits until the source is done with a message.
func (f *fed) at(seq uint64) (s protocol.Source) {
	f.Helper()
	testenv.Await(f.TB, fmt.Sprint("the source is at ", seq), func() bool { s = f.shown(); return s.Seq == seq })
	return s
}

func (f *fed) resume(body string) {
	f.Helper()
	ofFed[protocol.Source](f, "pq.jobs.admin.source.orders.resume", body)
}

// items pops n items in order, and checks that there are no more.
func (f *fed) items(want ...string) {
	f.Helper()
	for _, text := range want {
		if m := f.pop("pq.jobs.pop.min", "", "PQ-Wait", forever); string(m.Data) != text {
			f.Fatalf("popped %q with %v, expected %s", m.Data, m.Header, text)
		}
	}
	if m := f.ask("pq.jobs.pop.min", ""); m.Header.Get("Status") != "404" {
		f.Fatalf("popped %q with %v, expected nothing more", m.Data, m.Header)
	}
}

func numbers(from, to int) (all []string) {
	for n := from; n <= to; n++ {
		all = append(all, strconv.Itoa(n))
	}
	return all
}

// Messages become items in their order, messages that were there and messages that come, with their headers and none of the publisher's
// words about the item.
func TestSourceCopies(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{})
	f.publish(3, "Kind", "a", "Kind", "b", "PQ-Priority", "-9", "PQ-Unique", "u", "Nats-Msg-Id", "")
	made := f.set(copying)
	if made.State != "starting" || made.Mode != "copy" || made.Batch != 512 || string(made.Start) != `"first"` {
		t.Errorf("made: %+v", made)
	}
	m := f.pop("pq.jobs.pop.min", "", "PQ-Wait", forever)
	if string(m.Data) != "1" || m.Header.Get("PQ-Source") != "orders" || m.Header.Get("PQ-Source-Subject") != "orders.eu.new" || m.Header.Get("PQ-Source-Seq") != "1" ||
		m.Header.Get("PQ-Priority") != "0" || fmt.Sprint(m.Header["Kind"]) != "[a b]" {
		t.Errorf("item %q with %v", m.Data, m.Header)
	}
	if _, err := time.Parse(time.RFC3339Nano, m.Header.Get("PQ-Source-Time")); err != nil {
		t.Error(err)
	}
	f.publish(2)
	f.items(numbers(2, 5)...)
	s := f.at(5)
	if s.State != "running" || s.Counts.Delivered != 5 || s.Lag != 0 {
		t.Errorf("%+v", s)
	}
	page := ofFed[protocol.SourcesPage](f, "pq.jobs.sources", "")
	if len(page.Sources) != 1 || page.Sources[0].Name != "orders" {
		t.Errorf("page: %+v", page)
	}
	if m := f.ask("pq.jobs.push", "forwarded", "PQ-Source", "orders", "PQ-Source-Seq", "5"); strings.Contains(string(m.Data), "error") {
		t.Errorf("a push of an item of a source answers %s", m.Data)
	}
}

// A publisher may give a message the header by which the server ends requests for messages.
func TestSourceOfMessagesLikeStatuses(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{})
	for _, header := range [][]string{{"Status", "100"}, {"Status", "404"}, {"Status", "409", "Description", "Consumer Deleted"}, {"Status", "408", "Nats-Pending-Messages", "1000000"}} {
		if _, err := f.js.PublishMsg(f.Context(), &nats.Msg{Subject: "orders.eu.new", Header: h(header...)}); err != nil {
			t.Fatal(err)
		}
	}
	f.publish(1)
	f.set(copying)
	f.items("", "", "", "", "1")
}

// What maps says what items are like; what no push would take becomes a dead letter.
func TestSourceMaps(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{})
	f.set(`{"remote":"hub","stream":"ORDERS","map":{"priority":{"header":"Prio","default":5},"key":{"token":2},"unique":{"header":"Nats-Msg-Id"},"ttl":"1h"}}`)
	f.publish(1)
	f.publish(1, "Prio", "1  ", "Nats-Msg-Id", "x")
	f.publish(1, "Prio", "high")
	f.publish(1, "Prio", "2", "Nats-Marker-Reason", "MaxAge")
	s := f.at(4)
	if s.Counts.Delivered != 2 || s.Counts.Poisoned != 1 {
		t.Errorf("counts: %+v", s.Counts)
	}
	m := f.pop("pq.jobs.pop.min", "")
	if string(m.Data) != "2" || m.Header.Get("PQ-Priority") != "1" || m.Header.Get("PQ-Key") != "eu" || m.Header.Get("PQ-Source-Msg-Id") != "x" {
		t.Errorf("item %q with %v", m.Data, m.Header)
	}
	f.items("1")
	dead := f.pop("pq.jobs-dead.pop.min", "")
	if string(dead.Data) != "3" || !strings.HasPrefix(dead.Header.Get("PQ-Dead-Reason"), "source: priority") || dead.Header.Get("PQ-Origin") != "jobs" {
		t.Errorf("dead letter %q with %v", dead.Data, dead.Header)
	}
}

// A queue gets what the operator has allowed it, and nothing else.
func TestSourceNeedsLeave(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{})
	for _, c := range []struct{ queue, object, want string }{
		{"jobs", `{"remote":"moon","stream":"ORDERS"}`, `there is no remote "moon"`},
		{"jobs", `{"remote":"hub","stream":"SECRETS"}`, `remote "hub" lets queue "jobs" read no stream "SECRETS": see PQ_REMOTES`},
		{"mail", copying, `lets queue "mail" read no stream`},
	} {
		m := f.ask("pq."+c.queue+".admin.source.orders", c.object)
		if m.Header.Get("Status") != "403" || !strings.Contains(m.Header.Get("Nats-Service-Error"), c.want) {
			t.Errorf("%s: %v", c.object, m.Header)
		}
	}
}

// Pitfall: the stream was deleted and made again, with as many messages.
func TestSourceStopsAtAReplacedStream(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{})
	stops := f.hear("pq.jobs.event.source_stopped")
	f.publish(5)
	f.set(copying)
	f.items(numbers(1, 5)...)
	f.at(5)
	if err := f.js.DeleteStream(f.Context(), "ORDERS"); err != nil {
		t.Fatal(err)
	}
	f.make(jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	f.publish(3)
	f.state("stopped", "stream_replaced")
	if e := string(f.client.next(stops).Data); !strings.Contains(e, `"name":"orders"`) || !strings.Contains(e, `"reason":"stream_replaced"`) {
		t.Errorf("event %s", e)
	}
	f.items()
	if m := f.ask("pq.jobs.admin.source.orders.resume", ""); m.Header.Get("Status") != "400" {
		t.Errorf("a resume that does not say how answers %s", m.Data)
	}
	f.resume(`{"accept":true}`)
	f.items(numbers(6, 8)...)
	testenv.Await(f.TB, "the source knows that the new stream is shorter", func() bool {
		s := f.shown()
		return s.State == "running" && s.Seq == 3 && s.Last == 3 && s.Lag == 0
	})
}

// older has the server begin again with the files that it had when do began: it loses what do does.
func (f *fed) older(do func()) {
	f.Helper()
	f.server.Shutdown()
	saved := f.TempDir()
	if err := os.CopyFS(filepath.Join(saved, "files"), os.DirFS(f.dir)); err != nil {
		f.Fatal(err)
	}
	f.server.Restart(f.TB)
	f.connect()
	do()
	f.server.Shutdown()
	if err := os.RemoveAll(f.dir); err != nil {
		f.Fatal(err)
	}
	if err := os.CopyFS(f.dir, os.DirFS(filepath.Join(saved, "files"))); err != nil {
		f.Fatal(err)
	}
	f.server.Restart(f.TB)
	f.connect()
}

// Pitfall: messages are gone before the source reads them. They are counted, and the source goes on.
func TestSourceCountsWhatItMissed(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{})
	skips := f.hear("pq.jobs.event.source_skipped")
	f.publish(2)
	f.set(copying)
	f.at(2)
	ofFed[protocol.Source](f, "pq.jobs.admin.source.orders.pause", "")
	f.publish(4)
	f.purge(6)
	f.resume("")
	f.items("1", "2", "6")
	if s := f.at(6); s.Counts.Skipped != 3 || s.Counts.Delivered != 3 {
		t.Errorf("counts: %+v", s.Counts)
	}
	if e := string(f.client.next(skips).Data); !strings.Contains(e, `"count":3`) {
		t.Errorf("event %s", e)
	}
}

// Pitfall: the stream's limits drop messages while the queue is full. Each is an item, or is counted.
func TestSourceCountsWhatLimitsDrop(t *testing.T) {
	t.Parallel()
	for mode, retention := range map[string]jetstream.RetentionPolicy{"copy": jetstream.LimitsPolicy, "take": jetstream.WorkQueuePolicy} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := feeding(t, jetstream.StreamConfig{Retention: retention, MaxMsgs: 10})
			skips := f.hear("pq.jobs.event.source_skipped")
			f.ask("pq.jobs.admin.config", `{"max_length":3}`)
			f.set(`{"remote":"hub","stream":"ORDERS","batch":4,"mode":"` + mode + `"}`)
			f.state("running", "")
			f.publish(100)
			f.state("blocked", "full")
			f.ask("pq.jobs.admin.config", `{"max_length":1000}`)
			s := f.at(100)
			if s.Counts.Skipped < 50 || s.Counts.Delivered+s.Counts.Skipped != 100 {
				t.Errorf("counts: %+v", s.Counts)
			}
			if n := len(f.popAll()); int64(n) != s.Counts.Delivered {
				t.Errorf("%d items of %+v", n, s.Counts)
			}
			f.client.next(skips)
		})
	}
}

// A source that takes moves the front of its stream by its acknowledgements. What was deleted before it began, or was read with
// another filter, is no loss then; and what the stream drops of the messages that were there is one.
func TestSourceThatTakesCountsWhatWasThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		do      func(f *fed)
		skipped int64
	}{
		{"deleted before it began", func(f *fed) {
			f.publish(3)
			f.delete(3)
			f.take("")
			f.at(2)
			f.begins(4)
		}, 0},
		{"dropped since", func(f *fed) {
			f.publish(6)
			f.ask("pq.jobs.admin.config", `{"max_length":2}`)
			f.take("")
			f.state("blocked", "full") // it has message 3
			f.purge(6)
		}, 2},
		{"deleted before, and dropped since", func(f *fed) {
			f.publish(9)
			f.delete(5)
			f.ask("pq.jobs.admin.config", `{"max_length":2}`)
			f.take("")
			f.state("blocked", "full")
			f.purge(5)
			f.delete(8)
		}, 2},
		{"dropped like those that it has read with another filter", func(f *fed) {
			f.publishTo("orders.us", 3)
			f.publish(1)
			f.ask("pq.jobs.admin.config", `{"max_length":1}`)
			f.take(`"orders.eu.>"`)
			f.at(4)
			f.holds(3)
			f.set(`{"filter":[]}`)
			f.state("blocked", "full") // it has message 1
			f.delete(2)
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := feeding(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
			c.do(f)
			f.ask("pq.jobs.admin.config", `{"max_length":1000}`)
			f.publish(1)
			s := f.at(uint64(f.next - 1))
			if s.Counts.Skipped != c.skipped || s.Counts.Delivered != int64(len(f.popAll())) {
				t.Errorf("counts: %+v, expected %d skipped", s.Counts, c.skipped)
			}
		})
	}
}

// take makes a source that takes one message at a time.
func (f *fed) take(filter string) {
	f.Helper()
	f.set(`{"remote":"hub","stream":"ORDERS","mode":"take","batch":1,"filter":[` + filter + `]}`)
}

func (f *fed) stream() jetstream.Stream {
	f.Helper()
	s, err := f.js.Stream(f.Context(), "ORDERS")
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// delete deletes a message of the stream.
func (f *fed) delete(seq uint64) {
	f.Helper()
	if err := f.stream().DeleteMsg(f.Context(), seq); err != nil {
		f.Fatal(err)
	}
}

// purge deletes the messages of the stream before one.
func (f *fed) purge(seq uint64) {
	f.Helper()
	if err := f.stream().Purge(f.Context(), jetstream.WithPurgeSequence(seq)); err != nil {
		f.Fatal(err)
	}
}

// begins waits until the stream begins with a message.
func (f *fed) begins(seq uint64) {
	f.Helper()
	testenv.AwaitAnswer(f.TB, fmt.Sprint("the stream begins at ", seq), func(context.Context) bool { return f.stream().CachedInfo().State.FirstSeq == seq })
}

// holds waits until the stream has n messages.
func (f *fed) holds(n uint64) {
	f.Helper()
	testenv.AwaitAnswer(f.TB, fmt.Sprintf("the stream has %d messages", n), func(context.Context) bool { return f.stream().CachedInfo().State.Msgs == n })
}

// Pitfall: a remote takes connections and says nothing. Whoever waits for it does not hold up the sources of others, nor the end of the bridge.
func TestSourceOfASilentRemoteWaitsAlone(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{})
	ofFed[protocol.Source](f, "pq.jobs.admin.source.silent", `{"remote":"silent","stream":"ORDERS"}`)
	<-f.asked
	ofFed[protocol.Source](f, "pq.jobs.admin.source.silent", `{"batch":7}`)
	f.set(copying)
	f.publish(1)
	f.items("1")
	ofFed[protocol.Source](f, "pq.jobs.admin.source.silent.pause", "")
	f.resume(`{"from_seq":1}`)
	f.items("1")
	ofFed[protocol.Source](f, "pq.jobs.admin.source.silent.resume", "")
}

// metrics returns the metrics of the source, by their names; the metric of its state, by the state; and of events, by their types.
func (f *fed) metrics() map[string]float64 {
	f.Helper()
	families, err := f.registry().Gather()
	if err != nil {
		f.Fatal(err)
	}
	found := make(map[string]float64)
	for _, family := range families {
		name, is := strings.CutPrefix(family.GetName(), "pq_source_")
		if !is && name != "pq_events_total" {
			continue
		}
		for _, m := range family.Metric {
			for _, label := range m.Label {
				if label.GetName() == "state" || label.GetName() == "type" {
					name = label.GetValue()
				}
			}
			found[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return found
}

// The metrics say where a source is, what became of its messages, and for how long it stands.
func TestSourceMetrics(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{}, func(o *server.Options) { o.MaxPayload = 8 << 20 })
	f.publish(2)
	f.set(`{"remote":"hub","stream":"ORDERS","map":{"priority":{"header":"Prio"}}}`)
	f.publish(1, "Prio", "high")
	f.at(3)
	if _, err := f.js.Publish(f.Context(), "orders.x", make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	f.publish(3)
	f.state("stopped", "poisoned")
	var now map[string]float64
	defer func() {
		if t.Failed() {
			t.Logf("the metrics are %v", now)
		}
	}()
	testenv.Await(t, "the metrics tell of the stop", func() bool {
		now = f.metrics()
		return now["stopped"] == 1 && now["position"] == 3 && now["delivered_total"] == 2 && now["poisoned_total"] == 1 && now["skipped_total"] == 0 && now["standing_seconds"] > 0 &&
			now["running"] == 0 && now["source_stopped"] == 1 && now["source_poisoned"] == 1
	})
	f.resume(`{"skip":true}`)
	testenv.Await(t, "the metrics tell that it runs", func() bool {
		now = f.metrics()
		return now["running"] == 1 && now["position"] == 7 && now["lag"] == 0 && now["poisoned_total"] == 2 && now["standing_seconds"] == 0 && now["stopped"] == 0
	})
}

// A source that waits for the next message hears at once that an administrator has changed it.
func TestSourceHearsOfChanges(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{})
	f.set(copying)
	f.publish(2)
	f.items("1", "2")
	began := f.at(2).Time.Add(-time.Hour).Format(time.RFC3339)
	f.resume(`{"from_seq":2}`)
	f.items("2")
	f.at(2)
	f.resume(`{"from_time":"` + began + `"}`)
	f.items("1", "2")
	f.at(2)
	f.set(`{"map":{"priority":7}}`)
	f.publish(1)
	if item := f.pop("pq.jobs.pop.min", "", "PQ-Wait", "50s"); item.Header.Get(protocol.HeaderPriority) != "7" {
		t.Errorf("the item has %v", item.Header)
	}
}

// Pitfall: a message is too large for an item here. A person passes over it.
func TestSourceStopsAtAMessageThatIsTooLarge(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{}, func(o *server.Options) { o.MaxPayload = 8 << 20 })
	f.set(copying)
	f.publish(1)
	if _, err := f.js.Publish(f.Context(), "orders.x", make([]byte, 5<<20)); err != nil { // more than one request asks for
		t.Fatal(err)
	}
	f.publish(1)
	f.state("stopped", "poisoned")
	f.items("1")
	f.resume(`{"skip":true}`)
	f.items("2")
	if s := f.at(3); s.Counts.Poisoned != 1 {
		t.Errorf("counts: %+v", s.Counts)
	}
}

// Pitfall: the queue is full in the middle of a batch.
func TestSourceWaitsForRoom(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{})
	f.ask("pq.jobs.admin.config", `{"max_length":3}`)
	f.publish(8)
	f.set(copying)
	s := f.state("blocked", "full")
	if s.Seq != 3 || s.Since.IsZero() {
		t.Errorf("blocked: %+v", s)
	}
	for i := range 8 {
		if m := f.pop("pq.jobs.pop.min", "", "PQ-Wait", forever); string(m.Data) != strconv.Itoa(i+1) {
			t.Fatalf("popped %q, expected %d", m.Data, i+1)
		}
	}
	f.at(8)
	f.state("running", "")
}

// Where a source begins.
func TestSourceBegins(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{})
	f.publish(2)
	between := time.Now().UTC()
	f.publish(3)
	for i, start := range []string{`"new"`, `{"seq":2}`, `{"time":"` + between.Format(time.RFC3339Nano) + `"}`} {
		name := fmt.Sprint("pq.jobs.admin.source.s", i)
		ofFed[protocol.Source](f, name, `{"remote":"hub","stream":"ORDERS","start":`+start+`}`)
		testenv.Await(t, "it is at the end", func() bool { return ofFed[protocol.Source](f, name, "").Seq == 5 })
	}
	f.items("2", "3", "4", "5", "3", "4", "5")
}

// A source that takes leaves nothing in the stream, and nothing of it is lost or doubled when the bridge ends at any moment.
func TestSourceTakes(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	f.publish(20)
	f.set(`{"remote":"hub","stream":"ORDERS","mode":"take","batch":8}`)
	f.items(numbers(1, 20)...)
	f.publish(20)
	f.items(numbers(21, 40)...)
	testenv.AwaitAnswer(t, "the stream is empty", func(ctx context.Context) bool {
		s, err := f.js.Stream(ctx, "ORDERS")
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
	if s := f.at(40); s.State != "running" || s.Counts.Delivered != 40 || s.Counts.Skipped != 0 {
		t.Errorf("%+v", s)
	}
}

// Pitfall: a bridge that is stopped has asked for messages. The server gives it some, behind the reset by the next bridge, and no
// more than it may have to anyone until they are acknowledged.
func TestSourceTakesWhatAnotherOneWasGiven(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	f.set(`{"remote":"hub","stream":"ORDERS","mode":"take","batch":1}`)
	f.publish(1)
	f.at(1)
	stopped := f.server.Connect(t)
	inbox := stopped.NewInbox()
	given, err := stopped.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := stopped.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.ORDERS."+f.consumer(), inbox, []byte(`{"batch":1,"expires":3600000000000}`)); err != nil {
		t.Fatal(err)
	}
	if err := stopped.FlushTimeout(testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "the stopped one has a message", func() bool {
		f.publish(1)
		_, err := given.NextMsg(time.Second)
		return err == nil
	})
	f.at(uint64(f.next - 1))
	f.items(numbers(1, f.next-1)...)
}

// A mode that does not fit the stream is said, and harms nothing.
func TestSourceOfTheWrongMode(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	f.publish(1)
	f.set(copying)
	f.state("failing", "expected the mode take")
}

// While the server is away the source fails, and goes on when it is back.
func TestSourceSurvivesItsServer(t *testing.T) {
	nightly.Only(t, "in TestAcceptLeavesNothingBehind sources go on with servers that were away")
	t.Parallel()
	for _, mode := range []string{"copy", "take"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			config := jetstream.StreamConfig{}
			if mode == "take" {
				config.Retention = jetstream.WorkQueuePolicy
			}
			f := feeding(t, config)
			f.publish(5)
			f.set(`{"remote":"hub","stream":"ORDERS","batch":2,"mode":"` + mode + `"}`)
			f.items(numbers(1, 5)...)
			f.server.Shutdown()
			f.state("failing", "")
			f.server.Restart(t)
			f.connect()
			f.publish(5)
			f.items(numbers(6, 10)...)
			f.state("running", "")
		})
	}
}

// The rest of the verbs.
func TestSourceVerbs(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{})
	for _, verb := range []string{"sources", "admin.source.s.pause", "admin.source.s.delete"} {
		if m := f.ask("pq.none."+verb, ""); m.Header.Get("Status") != "404" {
			t.Errorf("%s of no queue answers %v %s", verb, m.Header, m.Data)
		}
	}
	f.set(copying)
	if m := f.ask("pq.jobs.admin.source.none", ""); m.Header.Get("Status") != "404" || m.Header.Get("PQ-Reason") != "unknown" {
		t.Errorf("no source answers %v", m.Header)
	}
	if s := ofFed[protocol.Source](f, "pq.jobs.admin.source.orders.pause", ""); s.State != "paused" || !s.Paused {
		t.Errorf("paused: %+v", s)
	}
	f.publish(1)
	f.resume("")
	f.items("1")
	gone := ofFed[protocol.SourceNamed](f, "pq.jobs.admin.source.orders.delete", "")
	if gone.Name != "orders" || gone.Queue != "jobs" {
		t.Errorf("deleted: %+v", gone)
	}
	if page := ofFed[protocol.SourcesPage](f, "pq.jobs.sources", ""); len(page.Sources) != 0 {
		t.Errorf("page: %+v", page)
	}
}

// A bridge that ends gives its sources up at once; another one goes on.
func TestSourceIsHandedOn(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{})
	f.publish(3)
	f.set(copying)
	f.at(3)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience())
	defer cancel()
	if err := f.env.Bridge.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	options := chosen(nil)
	options.Remotes = func() map[string]bridge.Remote {
		return map[string]bridge.Remote{"hub": {
			Connect: func(o ...nats.Option) (*nats.Conn, error) { return dial(f.server.URL(), o) },
			Read:    map[string][]string{"ORDERS": {"*"}},
		}}
	}
	second, err := bridge.Start(t.Context(), f.env.NATS.Connect(t, bridge.ConnectOptions(nil)...), f.env.Store, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.drain(second) })
	f.publish(2)
	f.items(numbers(1, 5)...)
}

// What a source pushes costs requests of the tenant. Without any it waits, as for a full queue.
func TestQuotaOfSources(t *testing.T) {
	t.Parallel()
	f := feedingWith(t, bridge.Options{Exclusive: true, Tenants: func(string) bridge.Quotas { return bridge.Quotas{Requests: 3} }}, jetstream.StreamConfig{})
	const messages = 50
	f.publish(messages)
	allowed := func(source.Config) error { return nil }
	f.inStore(func(tx kv.Tx) error {
		_, err := source.New(f.env.Store).Set(tx, f.env.Store.Queue("t.jobs"), "orders", []byte(`{"remote":"hub","stream":"ORDERS","batch":10}`), allowed)
		return err
	})
	var s source.Source
	testenv.Await(t, "the source waits for requests", func() bool {
		f.inStore(func(tx kv.Tx) (err error) {
			s, err = source.New(f.env.Store).Get(tx, f.env.Store.Queue("t.jobs"), "orders")
			return err
		})
		return s.Position.Blocked != 0
	})
	if n := s.Position.Delivered; n == 0 || n == messages {
		t.Errorf("it has pushed %d of %d messages before", n, messages)
	}
}

// What a source pushes is admitted with its unique values, as what a client pushes.
func TestBytesOfSources(t *testing.T) {
	t.Parallel()
	const quota = 10_000 // three items
	f := feedingWith(t, bridge.Options{Exclusive: true, Tenants: func(string) bridge.Quotas { return bridge.Quotas{Bytes: quota} }}, jetstream.StreamConfig{})
	for i := range 10 {
		f.publish(1, "U", fmt.Sprint(strings.Repeat("u", 1000), i))
	}
	allowed := func(source.Config) error { return nil }
	f.inStore(func(tx kv.Tx) error {
		config := `{"remote":"hub","stream":"ORDERS","batch":1,"map":{"unique":{"header":"U"}}}`
		_, err := source.New(f.env.Store).Set(tx, f.env.Store.Queue("t.jobs"), "orders", []byte(config), allowed)
		return err
	})
	testenv.Await(t, "the source waits for bytes", func() (waits bool) {
		f.inStore(func(tx kv.Tx) error {
			s, err := source.New(f.env.Store).Get(tx, f.env.Store.Queue("t.jobs"), "orders")
			waits = s.Position.Blocked != 0
			return err
		})
		return waits
	})
	var size fdbpq.Size
	f.inStore(func(tx kv.Tx) (err error) {
		size, err = f.env.Store.Queue("t.jobs").Size(tx)
		return err
	})
	if size.Items != 3 || size.Bytes+3*fdbpq.ItemBytes > quota {
		t.Errorf("it has pushed %d items of %d bytes, the quota is %d", size.Items, size.Bytes, quota)
	}
}
