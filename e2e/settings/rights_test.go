package settings_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// pqd warns if its own user may do more than pqd needs, and names the surplus.
// pqd needs to answer where its settings say.
func TestWarnsOfRights(t *testing.T) {
	t.Parallel()
	grammar, err := subjects.New("pq")
	if err != nil {
		t.Fatal(err)
	}
	needs := grammar.Bridge()
	for name, tc := range map[string]struct {
		permissions *server.Permissions
		says        string
	}{
		"one more to hear": {&server.Permissions{
			Publish:   &server.SubjectPermission{Allow: append([]string{"replies.>"}, needs.Publish...)},
			Subscribe: &server.SubjectPermission{Allow: append([]string{"orders.new"}, needs.Subscribe...)},
		}, `"publish":"","subscribe":"orders.new"`},
		"everything": {nil, `"publish":">","subscribe":">"`},
		"denied some": {&server.Permissions{
			Publish:   &server.SubjectPermission{Deny: []string{"orders.>"}},
			Subscribe: &server.SubjectPermission{Allow: needs.Subscribe},
		}, `"publish":">","subscribe":""`},
		"one more": {&server.Permissions{
			Publish:   &server.SubjectPermission{Allow: append([]string{"orders.new"}, needs.Publish...)},
			Subscribe: &server.SubjectPermission{Allow: needs.Subscribe},
		}, `"publish":"orders.new","subscribe":""`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.NATS(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: "pqd", Password: "secret", Permissions: tc.permissions}}
			})
			p := testenv.Daemon(t, "NATS_URL="+srv.URL(), "NATS_USER=pqd", "NATS_PASSWORD=secret", "PQ_REPLY_SUBJECTS=replies.>")
			p.AwaitLog(t, "may do more than pqd needs")
			if log := p.Log(); !strings.Contains(log, tc.says) || !strings.Contains(log, `"level":"WARN"`) {
				t.Errorf("expected %s in %s", tc.says, log)
			}
		})
	}
}
