package streams_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// remotes writes a file for PQ_REMOTES, and returns its setting.
func remotes(t *testing.T, content map[string]any) (setting, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "remotes.json")
	write(t, file, content)
	return "PQ_REMOTES=" + file, file
}

func write(t *testing.T, file string, content map[string]any) {
	t.Helper()
	text, err := json.Marshal(content)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// reads lets queues read a stream.
func reads(stream string, queues ...string) map[string]any {
	return map[string]any{stream: map[string]any{"read": queues}}
}

// A file of remotes that is read again gives rights and takes them; a wrong one, or one that others can read, changes nothing.
func TestRemotesAreReadAgain(t *testing.T) {
	t.Parallel()
	server := jetStream(t)
	js, err := jetstream.New(server.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}}); err != nil {
		t.Fatal(err)
	}
	allowed := map[string]any{"hub": map[string]any{"url": server.URL(), "streams": reads("ORDERS", "jobs")}}
	setting, file := remotes(t, map[string]any{})
	p := testenv.Daemon(t, setting)
	queue := jobs(t, p.URL)
	remote, stream := "hub", "ORDERS"
	change := client.SourceChange{Remote: &remote, Stream: &stream}
	if _, err := queue.SetSource(t.Context(), "orders", change); err == nil {
		t.Fatal("a source of a remote that is not there was made")
	}
	write(t, file, allowed)
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	p.HangUp(t)
	p.AwaitLog(t, "every user of this machine can reach")
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	p.HangUp(t)
	p.AwaitLog(t, "read the remotes again\"")
	if _, err := queue.SetSource(t.Context(), "orders", change); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "orders.x", []byte("1")); err != nil {
		t.Fatal(err)
	}
	state := func(want string) {
		t.Helper()
		testenv.Await(t, "the source is "+want, func() bool {
			s, err := queue.Source(t.Context(), "orders")
			return err == nil && s.State == want && s.Seq == 1
		})
	}
	state("running")
	write(t, file, map[string]any{})
	p.HangUp(t)
	state("no_runner")
}

// A message of pqd's own NATS server is read whole: one with more headers than an item may have stops the
// source, and is no item without content.
func TestSourceReadsMessagesWhole(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, "jetstream { store_dir: %q }", t.TempDir()), 0o600); err != nil {
		t.Fatal(err)
	}
	setting, _ := remotes(t, map[string]any{"self": map[string]any{"streams": reads("ORDERS", "jobs")}})
	p := testenv.Daemon(t, setting, "PQ_NATS_CONFIG="+config)
	js, err := jetstream.New(p.Connect(t), jetstream.WithDefaultTimeout(testenv.Patience()))
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, headers := range []int{990, 1001} {
		m := &nats.Msg{Subject: "orders.x", Data: []byte("a book"), Header: nats.Header{}}
		for i := range headers {
			m.Header.Set(fmt.Sprint("H", i), "x")
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	queue := jobs(t, p.URL)
	remote, stream := "self", "ORDERS"
	if _, err := queue.SetSource(t.Context(), "orders", client.SourceChange{Remote: &remote, Stream: &stream}); err != nil {
		t.Fatal(err)
	}
	var s client.Source
	testenv.Await(t, "the source is done with both", func() bool {
		s, err = queue.Source(t.Context(), "orders")
		return err != nil || s.State == protocol.SourceStopped || s.Seq == 2
	})
	if err != nil || s.Seq != 1 || !strings.HasPrefix(s.Reason, protocol.StopPoisoned+": ") {
		t.Errorf("%+v, %v: expected it to have stopped at the second message", s, err)
	}
	item, err := queue.Pop(t.Context(), client.Min)
	if err != nil || string(item.Payload) != "a book" || len(item.Header) < 990 {
		t.Errorf("%+v, %v: expected the first message", item, err)
	}
	p.Stop(t)
}

// Wrong files end pqd at its start, with a line that says what was expected.
func TestWrongRemotes(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`[]`:                         "found a JSON array in place of an object",
		`{"hub":{"URL":"nats://h"}}`: `unknown field "URL"`,
		`null`:                       "found null",
		`{"hub":null}`:               "found null",
		`{"hub":{"url":"nats://h"},"hub":{"url":"nats://i"}}`: `"hub" occurs twice`,
		`{"hub":{"url":5}}`:          "in place of a string",
		`{"hub":{"url":"h"}}`:        "url: address 1 of the list says not how to connect: expected nats://",
		`{"hub":{"url":"http://h"}}`: "url: address 1 of the list begins with http://: expected nats://",
		`{"hub":{"url":"nats://h","streams":{"A":{"read":[]}}}}`:                 `stream "A": nobody may read it`,
		`{"hub":{"url":"nats://h","streams":{"A":{}}}}`:                          `stream "A": nobody may read it`,
		`{"hub":{"url":"nats://h","streams":{"A":{"read":["a","b","a"]}}}}`:      `found the queue "a" twice`,
		`{"hub":{"url":"nats://h","streams":{"A":{"read":"a"}}}}`:                "in place of a list",
		`{"hub":{"url":"nats://h","streams":{"*":{"read":["a"]}}}}`:              `stream "*": expected a name`,
		`{"hub":{"url":"nats://h","queues":{"*":["a"]}}}`:                        `queue "*": expected the prefix`,
		`{"hub":{"url":"nats://h","queues":{"edge7.*":["a"]}}}`:                  `queue "edge7.*": expected the prefix`,
		`{"hub":{"url":"nats://h","queues":{"orders":["a"]}}}`:                   `queue "orders": expected the prefix`,
		`{"hub":{"url":"nats://h","queues":{"edge7.orders":[]}}}`:                `queue "edge7.orders": nobody may read it`,
		`{"hub":{"url":"nats://h","queues":{"edge7.orders":["a","a"]}}}`:         `found the queue "a" twice`,
		`{"hub":{"url":"nats://h","streams":{"A":{"read":["a"],"read":["b"]}}}}`: "occurs twice",
		`{"hub":{}}`: "url is missing",
		`{"hub":{"url":"nats://h","inbox_prefix":"a.*"}}`:               "inbox_prefix",
		`{"self":{"inbox_prefix":"_INBOX.a"}}`:                          "expected only domain, streams and queues",
		`{"hub":{"url":"nats://h","pass":"x"}}`:                         "unknown field",
		`{"self":{"url":"nats://h"}}`:                                   "expected only domain, streams and queues",
		`{"hub":{"url":"nats://h","user":"u"}}`:                         "user and password together",
		`{"hub":{"url":"nats://h","creds":"/none"}}`:                    "no such file",
		`{"hub":{"url":"nats://h","streams":{"A":{"read":["a b"]}}}}`:   "queue",
		`{"hub":{"url":"nats://h","streams":{"A":{"read":["a"]}}}}{}`:   "more behind",
		`{"hub":{"url":"nats://h","token":"t","creds":"c"}}`:            "one way to log in",
		`{"hub":{"url":"nats://h","streams":{"A":{"writes":["jobs"]}}}`: "unexpected EOF",
	} {
		file := filepath.Join(t.TempDir(), "remotes.json")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := testenv.Run(t, []string{"PQ_REMOTES=" + file, "PQ_STORE=local:" + filepath.Join(t.TempDir(), "data"), "PQ_LISTEN=127.0.0.1:0", "PQ_HTTP=127.0.0.1:0"})
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: ended with %d: %s", content, code, stderr)
		}
	}
}
