package gateway

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// All items that match a filter are changed page by page, and what belongs to one operation alone
// is refused by the others.
func TestBulk(t *testing.T) {
	t.Parallel()
	s := open(t)
	bulk := func(queue, what, body string) (a protocol.BulkAnswer) {
		t.Helper()
		s.ok(&a, "POST", "/v1/queues/"+queue+"/bulk/"+what, body)
		return a
	}
	for n := range 5 {
		s.ok(nil, "POST", fmt.Sprintf("/v1/queues/jobs/push?priority=%d&header=Season:autumn", n), "x")
	}
	first := bulk("jobs", "move", `{"where":{"header":{"Season":"aut*"}},"priority":9,"limit":2}`)
	if first.Done != 2 || first.Next == "" {
		t.Errorf("the first page: %+v", first)
	}
	if rest := bulk("jobs", "move", `{"where":{"header":{"Season":"aut*"}},"priority":9,"after":"`+first.Next+`"}`); rest.Done != 3 || rest.Next != "" {
		t.Errorf("the second page: %+v", rest)
	}
	for range 3 {
		var leased shownItem
		s.ok(&leased, "POST", "/v1/queues/jobs/pop?holder=bob", "")
	}
	if a := bulk("jobs", "revoke", `{"where":{"holder":"bob"},"delay":"0s"}`); a.Done != 3 {
		t.Errorf("revoked: %+v", a)
	}
	for n := range 2 {
		var leased shownItem
		s.ok(&leased, "POST", "/v1/queues/jobs/pop", "")
		s.ok(nil, "POST", "/v1/queues/jobs/settle?ack="+url.QueryEscape(leased.Ack), fmt.Sprintf("+TERM timeout %d", n))
	}
	if a := bulk("jobs-dead", "requeue", `{"where":{"reason":"timeout*"},"to":"jobs","dry_run":true}`); a.Done != 2 || s.numbers("jobs-dead").Ready != 2 {
		t.Errorf("without changes: %+v", a)
	}
	s.refused(403, "", "POST", "/v1/queues/jobs-dead/bulk/requeue", `{"all":true,"to":"others"}`)
	if a := bulk("jobs-dead", "requeue", `{"where":{"reason":"timeout 1"}}`); a.Done != 1 || s.numbers("jobs") != (numbers{Ready: 4}) {
		t.Errorf("requeued: %+v", a)
	}
	if a := bulk("jobs", "remove", `{"all":true}`); a.Done != 4 || s.numbers("jobs") != (numbers{}) {
		t.Errorf("removed: %+v", a)
	}
	for _, wrong := range [][3]string{
		{"remove", "", "where"}, {"remove", " ", "where"}, {"remove", `{"where":{}}`, "all"}, {"remove", `{"where":{"colour":"red"}}`, "colour"}, {"remove", `{"all":true,"priority":1}`, "priority"},
		{"move", `{"all":true}`, "priority"}, {"revoke", `{"where":{"state":"ready"}}`, "leased"}, {"requeue", `{"all":true,"spread":"soon"}`, "spread"},
	} {
		s.refused(400, wrong[2], "POST", "/v1/queues/jobs-dead/bulk/"+wrong[0], wrong[1])
	}
	s.refused(404, "no such path", "POST", "/v1/queues/jobs/bulk/push", "{}")
	s.refused(404, "no queue", "POST", "/v1/queues/none/bulk/remove", `{"all":true}`)
}
