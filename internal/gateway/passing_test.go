package gateway

import (
	"slices"
	"testing"
)

// Of a page a caller gets as many as it asks for, up to the most that a page has, and what is about all tenants is the operator's.
func TestPassing(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.ok(nil, "POST", "/v1/queues/jobs/push?key=a", "x")
	for _, what := range []string{"keys", "schedules", "sources", "links"} {
		s.refused(400, "limit is 0: expected 1 or more", "GET", "/v1/queues/jobs/"+what+"?limit=0", "")
		s.refused(400, "limit is \"many\": expected an integer", "GET", "/v1/queues/jobs/"+what+"?limit=many", "")
		s.ok(nil, "GET", "/v1/queues/jobs/"+what+"?limit=1000000&after=a", "")
		s.ok(nil, "GET", "/v1/queues/jobs/"+what, "")
	}
	s.refused(400, "force is \"maybe\": expected true or false", "DELETE", "/v1/queues/jobs/links/hub?force=maybe", "")
	var ofOperators []string
	for _, r := range newRoutes() {
		if r.operator {
			ofOperators = append(ofOperators, r.name)
		}
	}
	slices.Sort(ofOperators)
	if want := []string{"bridges", "cluster", "history", "replaceNode", "stepDown"}; !slices.Equal(ofOperators, want) {
		t.Errorf("operators alone may ask for %v, expected %v", ofOperators, want)
	}
}
