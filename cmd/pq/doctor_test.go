package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/client"
)

// Builds of one checkout between releases have different versions, by how they were
// made. Doctor warns of other differences.
func TestDoctorComparesVersions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ pq, bridge, other, want string }{
		{"1.2.3", "1.2.3", "1.2.3", "ok"},
		{"1.2.3", "1.2.4", "1.2.4", "warn"},
		{"1.2.3", "0.0.0-devel", "0.0.0-devel", "warn"},
		{"0.0.0-20261121193017-467b474efb68", "0.0.0-devel", "0.0.0-devel", "ok"},
		{"0.0.0-devel", "0.0.0", "0.0.0", "warn"},
		{"0.0.0-devel", "0.0.0-devel", "1.2.3", "warn"},
	} {
		var out strings.Builder
		d := &doctor{session: &session{stdout: &out}}
		d.versions(tc.pq, []micro.Info{
			{ServiceIdentity: micro.ServiceIdentity{Version: tc.bridge}}, {ServiceIdentity: micro.ServiceIdentity{Version: tc.other}},
		}, &client.System{Version: tc.bridge})
		if d.err != nil || !strings.HasPrefix(out.String(), tc.want+" ") {
			t.Errorf("pq %s, bridges %s and %s: %q, %v, expected %s", tc.pq, tc.bridge, tc.other, out.String(), d.err, tc.want)
		}
	}
}
