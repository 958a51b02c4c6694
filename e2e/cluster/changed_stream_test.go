package cluster_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// The stream is changed so that it could lose entries while two pqd use it: the active one
// logs that, the follower is not ready, and both say what was expected. When the change is
// undone, both go on.
func TestChangedStream(t *testing.T) {
	t.Parallel()
	s := pqd.NewStreamStore(t, "64M")
	_, active, follower := s.Pair(t)
	js, err := jetstream.New(s.Nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "PQ_pq_1")
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	changed := config
	changed.MaxMsgs = 1 << 40
	if _, err := js.UpdateStream(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	active.AwaitLog(t, "expected no max_msgs")
	testenv.Await(t, "the follower says what is wrong", func() bool {
		code, body := pqd.Get(t, follower.HTTP+"/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "expected no max_msgs")
	})
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "the follower is ready again", func() bool {
		code, _ := pqd.Get(t, follower.HTTP+"/readyz")
		return code == http.StatusOK
	})
	s.Ask(t, "pq.jobs.push.1", "x")
}
