package gateway

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

// event is one event of a stream.
type event struct {
	Path   string
	Status int
	Body   struct {
		Ready int64
		Error struct{ Code int }
	}
}

// A stream has the answers at first, and then their changes, whoever made them.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.ok(nil, "POST", "/v1/queues/jobs/push", "x")
	query := url.Values{"path": {"/v1/queues/jobs", "/v1/queues/none"}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/watch?"+query.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if kind := stream.Header.Get("Content-Type"); stream.StatusCode != 200 || kind != "text/event-stream" {
		t.Fatalf("%d, %s", stream.StatusCode, kind)
	}
	lines := bufio.NewScanner(stream.Body)
	until := func(what string, is func(event) bool) {
		t.Helper()
		for lines.Scan() {
			text, data := strings.CutPrefix(lines.Text(), "data: ")
			if !data {
				continue
			}
			var e event
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				t.Fatalf("%v in %s", err, text)
			}
			if is(e) {
				return
			}
		}
		t.Fatalf("the stream ended before %s: %v", what, lines.Err())
	}
	seen := make(map[string]bool)
	until("both paths were there", func(e event) bool {
		seen[e.Path] = e.Path == "/v1/queues/jobs" && e.Status == 200 && e.Body.Ready == 1 || e.Path == "/v1/queues/none" && e.Status == 404 && e.Body.Error.Code == 404
		return seen["/v1/queues/jobs"] && seen["/v1/queues/none"]
	})
	if _, err := s.env.NATS.Connect(t).Request("pq.jobs.push", []byte("y"), testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	until("the push was seen", func(e event) bool { return e.Path == "/v1/queues/jobs" && e.Body.Ready == 2 })
	s.ok(nil, "POST", "/v1/queues/none/push", "z")
	until("the new queue was seen", func(e event) bool { return e.Path == "/v1/queues/none" && e.Status == 200 && e.Body.Ready == 1 })
	stream.Body.Close()
	s.await("the page has gone", func() bool {
		s.auth.operator.sampler.mu.Lock()
		defer s.auth.operator.sampler.mu.Unlock()
		return s.room.streams.taken() == 0 && len(s.auth.operator.sampler.samples) == 0
	})
}

// What has no stream is refused: other methods, other sites, waiting, and one request under
// many names.
func TestWatchablePaths(t *testing.T) {
	t.Parallel()
	s := open(t)
	for path, text := range map[string]string{
		"": "no such path", "https://evil.example/v1/queues": "expected one such as", "//evil.example/v1/queues": "expected one such as",
		"/v1/bridges#1": "expected one such as", "/v1/bridges#": "expected one such as", "/v1/bridges?": "without ?", "/v1/bridges?&": "without ?",
		"/v1/queues/jobs/peek?wait=1s": "has an answer at once", "/v1/watch?path=/v1/queues": "has an answer at once", "/v1/openapi.yaml": "has an answer at once",
		"/v1/bridges?x=1": "expected none",
	} {
		if _, why := s.watchable(s.auth.operator, path); why == nil || !strings.Contains(why.Description, text) {
			t.Errorf("%q: %+v, expected %q", path, why, text)
		}
	}
	for path, cost := range map[string]int{"/v1/bridges": 1, "/v1/queues/jobs/items?limit=1000": 1, "/v1/overview": 25, "/v1/overview?limit=100": 50, "/v1/overview?limit=1": 1, "/v1/overview?limit=9999999": 50} {
		if in, why := s.watchable(s.auth.operator, path); why != nil || in.cost() != cost {
			t.Errorf("%s: %+v, %+v, expected the cost %d", path, in, why, cost)
		}
	}
}
