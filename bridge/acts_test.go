package bridge_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
)

// Each administrative request that changes something has a line in the log, with what is known of its sender. Those that show, that
// only count, that are refused, or that change one item have none.
func TestLogOfAdministrativeActs(t *testing.T) {
	t.Parallel()
	diary := newDiary()
	c := serve(t, bridge.Options{Logger: slog.New(diary), Remotes: func() map[string]bridge.Remote {
		return map[string]bridge.Remote{"hub": {Read: map[string][]string{"ORDERS": {"*"}}, Connect: func(...nats.Option) (*nats.Conn, error) { return nil, nats.ErrNoServers }}}
	}})
	id := c.push("pq.jobs.push.1", "x").ID
	c.push("pq.jobs.push.2", "y", "PQ-Key", "ann")
	long := strings.Repeat("x", 300)
	for _, step := range []struct {
		subject, body string
		header        []string
		want          string // the line behind what it says of the reply subject; "": none
	}{
		{"pq.jobs.admin.config", "", nil, ""},
		{"pq.jobs.admin.config", ` {"lease":"1m"}`, nil, `config queue=jobs change={"lease":"1m"}`},
		{"pq.jobs.admin.config", `{"lease":"-1m"}`, nil, ""},
		{"pq.none.admin.pause", "", nil, ""},
		{"pq.jobs.admin.pause", "", nil, "pause queue=jobs"},
		{"pq.jobs.admin.resume", "", []string{"X-Forwarded-For", "10.0.0.7, 127.0.0.1"}, "resume queue=jobs address=10.0.0.7, 127.0.0.1"},
		{"pq.jobs.admin.key.ann", "", nil, ""},
		{"pq.jobs.admin.key.ann", `{"limit":2}`, []string{"X-Forwarded-For", "a\x1bb" + long}, `key queue=jobs key=ann change={"limit":2} address=a b` + long[:197]},
		{"pq.jobs.admin.key.ann", `{"limit":3}`, []string{"Nats-Request-Info", `{"acc":"ACME","user":"ann","name":"script","host":"10.0.0.9","rtt":5}`},
			`key queue=jobs key=ann change={"limit":3} account=ACME user=ann client=script host=10.0.0.9`},
		{"pq.jobs.admin.key.ann", `{"limit":4}`, []string{"Nats-Request-Info", `{"acc":`}, `key queue=jobs key=ann change={"limit":4}`},
		{"pq.jobs.admin.schedule.daily", `{"spec":"@every 1h","item":{"payload":"a secret"}}`, nil, "schedule queue=jobs schedule=daily"},
		{"pq.jobs.admin.schedule.daily", "", nil, ""},
		{"pq.jobs.admin.schedule.daily.run", "", nil, "schedule.run queue=jobs schedule=daily"},
		{"pq.jobs.admin.schedule.daily.pause", "", nil, "schedule.pause queue=jobs schedule=daily"},
		{"pq.jobs.admin.schedule.daily.delete", "", nil, "schedule.delete queue=jobs schedule=daily"},
		{"pq.jobs.admin.source.orders", `{"remote":"hub","stream":"ORDERS"}`, nil, `source queue=jobs source=orders change={"remote":"hub","stream":"ORDERS"}`},
		{"pq.jobs.admin.source.orders", "", nil, ""},
		{"pq.jobs.admin.source.orders.pause", "", nil, "source.pause queue=jobs source=orders"},
		{"pq.jobs.admin.source.orders.delete", "", nil, "source.delete queue=jobs source=orders"},
		{"pq.jobs.admin.link.hub", `{"to":""}`, nil, ""},
		{"pq.jobs.admin.link.hub", `{"to":"another-store"}`, nil, `link queue=jobs link=hub change={"to":"another-store"}`},
		{"pq.jobs.admin.link.hub.delete", `{"force":true}`, nil, `link.delete queue=jobs link=hub change={"force":true}`},
		{"pq.jobs.move." + id + ".5", "", nil, ""},
		{"pq.jobs.admin.remove", `{"all":true,"dry_run":true}`, nil, ""},
		{"pq.jobs.admin.move", `{"where":{"key":"ann"},"priority":7}`, nil, `move queue=jobs items={"where":{"key":"ann"},"priority":7}`},
		{"pq.jobs.admin.purge", "", nil, "purge queue=jobs removed=3"},
		{"pq.jobs.admin.delete", "", nil, "delete queue=jobs"},
	} {
		c.raw(step.subject, step.body, step.header...)
		if step.want == "" {
			continue // a line would come before the line of the next step
		}
		before, after, _ := strings.Cut(diary.await(t, "administrative act: "), " reply_prefix=_INBOX")
		if said := before + after; said != "INFO administrative act: admin."+step.want {
			t.Errorf("%s %s: the log says %q, expected %q", step.subject, step.body, said, step.want)
		}
	}

	// One without an answer has no reply subject.
	if err := c.Publish("pq.jobs.admin.config", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if line := diary.await(t, "administrative act: "); line != "INFO administrative act: admin.config queue=jobs change={}" {
		t.Errorf("the log says %q", line)
	}
}
