package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
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
		d := &doctor{session: &session.Session{Stdout: &out}}
		d.versions(tc.pq, []micro.Info{
			{ServiceIdentity: micro.ServiceIdentity{Version: tc.bridge}}, {ServiceIdentity: micro.ServiceIdentity{Version: tc.other}},
		}, &client.System{Version: tc.bridge})
		if d.err != nil || !strings.HasPrefix(out.String(), tc.want+" ") {
			t.Errorf("pq %s, bridges %s and %s: %q, %v, expected %s", tc.pq, tc.bridge, tc.other, out.String(), d.err, tc.want)
		}
	}
}

// The bridge's clock is compared with the time that the push took, however long that was: another
// pqd may have taken over meanwhile.
func TestDoctorComparesClocks(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for _, tc := range []struct {
		took, pushed time.Duration // after began
		want         string
	}{
		{time.Millisecond, 0, "ok"},
		{time.Minute, 0, "ok"},
		{time.Minute, 59 * time.Second, "ok"},
		{time.Millisecond, -wrongClock / 2, "ok"},
		{time.Millisecond, wrongClock / 2, "ok"},
		{time.Millisecond, -time.Minute, "1m0s behind"},
		{time.Minute, -time.Minute, "1m0s behind"},
		{time.Second, time.Minute, "59s ahead"},
	} {
		var out strings.Builder
		d := &doctor{session: &session.Session{Stdout: &out}}
		d.clock(began.Add(tc.pushed), began, began.Add(tc.took))
		if d.err != nil || !strings.Contains(out.String(), tc.want) || (tc.want == "ok") != strings.HasPrefix(out.String(), "ok ") {
			t.Errorf("a push of %s that was noted %s after its begin: %q, expected %s", tc.took, tc.pushed, out.String(), tc.want)
		}
	}
}

// The room on the disk of the store is told, and whether the store takes new items with it.
func TestDoctorTellsTheRoom(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		disk *client.Disk
		want string
	}{
		{nil, ""},
		{&client.Disk{Free: 300 << 30, Size: 1 << 40, MinFree: 1 << 30}, "ok    disk         300 GiB of 1 TiB are free where the store is\n"},
		{&client.Disk{Free: 100 << 30, Size: 1 << 40, MinFree: 100 << 30}, "warn  disk         100 GiB of 1 TiB are free"},
		{&client.Disk{Free: 0, Size: 96 << 20}, "warn  disk         0 B of 96 MiB are free"},
		{&client.Disk{Free: 1 << 20, Size: 96 << 20, MinFree: 12 << 20, EndsOnly: true}, "FAIL  disk         1 MiB of 96 MiB are free where the store is, so only remove, purge and delete are served"},
		{&client.Disk{Free: 11 << 20, Size: 96 << 20, MinFree: 12 << 20}, "FAIL  disk         11 MiB of 96 MiB are free where the store is, and 12 MiB are to stay free (PQ_MIN_FREE), so pushes are refused"},
	} {
		var out strings.Builder
		d := &doctor{session: &session.Session{Stdout: &out}}
		d.disk(tc.disk)
		if failed := strings.HasPrefix(tc.want, "FAIL"); d.err != nil || d.failed != failed || !strings.HasPrefix(out.String(), tc.want) || tc.want == "" && out.Len() > 0 {
			t.Errorf("%+v: %q, %v, expected %q", tc.disk, out.String(), d.err, tc.want)
		}
	}
}

// A refusal says nothing about rights, so doctor reports it with the server's text. That what it
// asks for is not there is no refusal.
func TestDoctorReportsRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{&client.Error{Op: "get", Code: 404, Description: "no such item"}, ""},
		{&client.Error{Op: "pop", Code: 404, Reason: client.ReasonEmpty, Description: "no item"}, ""},
		{&client.Error{Op: "push", Code: 429, Reason: client.ReasonStoreFull, Description: "the disk is nearly full"}, "the disk is nearly full (429)"},
		{&client.Error{Op: "push", Code: 503, Description: "store unavailable"}, "store unavailable (503)"},
		{&client.Error{Op: "push", Code: 504, Description: "not known"}, "not known (504)"},
		{nats.ErrConnectionClosed, "connection closed"},
	} {
		if got := failure(tc.err); got != tc.want {
			t.Errorf("%v: %q, expected %q", tc.err, got, tc.want)
		}
	}
}
