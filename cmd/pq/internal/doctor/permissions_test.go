package doctor

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/testenv"
)

// doctor finds out that somebody listens to the inboxes of others. A user who may not ask says nothing.
func TestDoctorHearsEavesdroppers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		subject string // that somebody subscribes to
		user    string
		warns   bool
	}{
		"nobody":               {"news.*", "operator", false},
		"everything":           {">", "operator", true},
		"all inboxes":          {"_INBOX.*.*", "operator", true},
		"who may not ask":      {">", "worker", false},
		"an inbox of somebody": {"_INBOX.mine.*", "operator", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testenv.NATS(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: "operator", Password: "p"}, {Username: "worker", Password: "p", Permissions: &server.Permissions{
					Publish: &server.SubjectPermission{Allow: []string{"pq.>"}},
				}}}
			})
			as := func(user string) *nats.Conn { return srv.Connect(t, nats.UserInfo(user, "p")) }
			other := as("operator")
			if _, err := other.SubscribeSync(tc.subject); err != nil {
				t.Fatal(err)
			}
			if err := other.Flush(); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			s := session.New(t.Context(), nil, strings.NewReader(""), &out, &out)
			s.NC, s.Global.Timeout = as(tc.user), testenv.Attempt()
			d := &doctor{session: s}
			d.eavesdroppers()
			if said := out.String(); d.failed || d.err != nil || (said != "") != tc.warns || tc.warns && !strings.Contains(said, "_INBOX.>") {
				t.Errorf("%q, %v, %v: expected a warning: %t", said, d.failed, d.err, tc.warns)
			}
		})
	}
}
