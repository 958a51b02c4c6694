package console_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// A path of the HTTP interface means what it says: no redirect makes the removal of an item
// with a strange id the removal of a queue. Refusals are JSON, whoever refuses.
func TestConsolePaths(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t, "PQ_CONSOLE=admin")
	if code, body := pqd.Ask(t, "POST", p.HTTP+"/v1/queues/jobs/push", "x"); code != 200 {
		t.Fatalf("a push: %d %s", code, body)
	}
	refused := func(want int, method, path, host string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, p.HTTP+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			request.Host = host
		}
		client := http.Client{Timeout: testenv.Patience()} // which follows redirects
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var told struct{ Error struct{ Code int } }
		if err := json.NewDecoder(answer.Body).Decode(&told); err != nil || answer.StatusCode != want ||
			told.Error.Code != want || answer.Request.URL.Path != request.URL.Path {
			t.Errorf("%s %s as %q: %d, %+v, %v, expected %d in JSON, and no redirect", method, path, host, answer.StatusCode, told, err, want)
		}
	}
	refused(400, "DELETE", "/v1/queues/jobs/items/..", "")
	refused(404, "DELETE", "/v1/queues/jobs/items/../", "")
	refused(404, "DELETE", "//v1/queues/jobs/items/..", "")
	refused(404, "DELETE", "/v1/queues//jobs", "")
	refused(404, "POST", "/v1/queues/jobs/./purge", "")
	refused(404, "DELETE", "/v1/../v1/queues/jobs", "")
	refused(404, "GET", "/v1", "")
	for _, path := range []string{"/v1/queues", "/v1/watch?path=/v1/queues", "/v1/queues/jobs", "/v1"} {
		for _, host := range []string{"evil.example", "127.0.0.1.evil.example", "[::1].evil.example:80", "EVIL.example."} {
			refused(421, "GET", path, host)
		}
	}
	if code, body := pqd.Ask(t, "GET", p.HTTP+"/v1/queues/jobs/peek", ""); code != 200 {
		t.Errorf("the item has gone: %d %s", code, body)
	}
	p.Stop(t)
	p = testenv.Daemon(t, "PQ_CONSOLE=off")
	refused(404, "GET", "/v1/queues", "")
	refused(404, "GET", "/v1", "")
	p.Stop(t)
}
