package streams_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// The rights that pq prints for a remote's user are enough for sources of either mode, and the server refuses nothing of what they do.
func TestSourceWithTheLeastRights(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	idle := testenv.Daemon(t)
	text, err := idle.Command(t, "bash", "-c", "pq permissions source COPIED TAKEN --json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var may struct{ Publish, Subscribe []string }
	if err := json.Unmarshal(text, &may); err != nil {
		t.Fatal(err)
	}
	hub := testenv.NATS(t, func(o *server.Options) {
		o.JetStream, o.StoreDir, o.JetStreamMaxStore = true, dir, 1<<30
		o.Users = []*server.User{{Username: "all", Password: "secret"}, {Username: "pqd", Password: "secret", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: may.Publish}, Subscribe: &server.SubjectPermission{Allow: may.Subscribe},
		}}}
	})
	js, err := jetstream.New(hub.Connect(t, nats.UserInfo("all", "secret")), jetstream.WithDefaultTimeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	setting, _ := remotes(t, map[string]any{"hub": map[string]any{"url": hub.URL(), "user": "pqd", "password": "secret", "inbox_prefix": "_INBOX.source", "streams": map[string]any{
		"COPIED": map[string]any{"read": []string{"jobs"}}, "TAKEN": map[string]any{"read": []string{"jobs"}},
	}}})
	p := testenv.Daemon(t, setting)
	queue := jobs(t, p.URL)
	for stream, mode := range map[string]string{"COPIED": "copy", "TAKEN": "take"} {
		config := jetstream.StreamConfig{Name: stream, Subjects: []string{stream}}
		if mode == "take" {
			config.Retention = jetstream.WorkQueuePolicy
		}
		if _, err := js.CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		remote, filter := "hub", []string{stream}
		if _, err := queue.SetSource(t.Context(), mode, client.SourceChange{Remote: &remote, Stream: &stream, Mode: &mode, Filter: filter}); err != nil {
			t.Fatal(err)
		}
		for n := range uint64(2) { // the second time it compares the stream with what it has read
			if _, err := js.Publish(t.Context(), stream, []byte(mode)); err != nil {
				t.Fatal(err)
			}
			testenv.Await(t, "the source "+mode+" is at the end", func() bool {
				s, err := queue.Source(t.Context(), mode)
				return err == nil && s.Seq == n+1 && s.State == protocol.SourceRunning
			})
			if _, err := queue.PauseSource(t.Context(), mode); err != nil {
				t.Fatal(err)
			}
			if _, err := queue.ResumeSource(t.Context(), mode, client.SourceResume{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	testenv.AwaitAnswer(t, "what was taken is acknowledged", func(ctx context.Context) bool {
		s, err := js.Stream(ctx, "TAKEN")
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
	if log := p.Log(); strings.Contains(strings.ToLower(log), "violation") {
		t.Errorf("the server has refused something:\n%s", log)
	}
}
