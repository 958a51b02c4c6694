package gateway

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
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

const schedulesPath = "/v1/queues/reports/schedules"

func TestSchedules(t *testing.T) {
	t.Parallel()
	s := open(t)
	at := func(name string) string { return schedulesPath + "/" + name }
	var made, shown, bare protocol.Schedule
	s.ok(&made, "PATCH", at("morning"), `{"spec":"0 12 1 1 *","zone":"Europe/Berlin","start":"2099-06-01T00:00:00Z","item":{"payload":"report","headers":{"Kind":"daily"},"priority":-3}}`)
	if made.Name != "morning" || made.Next.Format(time.RFC3339) != "2100-01-01T11:00:00Z" || made.Overlap != "skip" {
		t.Errorf("made %+v", made)
	}
	if s.ok(&shown, "GET", at("morning"), ""); len(shown.Times) != protocol.ScheduleTimesShown || *shown.Item.Payload != "report" || shown.Item.Headers["Kind"][0] != "daily" {
		t.Errorf("shown %+v", shown)
	}
	if s.ok(&bare, "PATCH", at("morning"), `{"start":null,"overlap":"allow","item":{"payload":"report"}}`); bare.Start != nil || bare.Next.Year() > time.Now().Year()+1 {
		t.Errorf("without a start %+v", bare)
	}
	var preview protocol.ScheduleTimes
	if s.ok(&preview, "POST", at("new")+"/preview", `{"spec":"@at 2099-01-31T09:00:00Z"}`); len(preview.Times) != 1 || preview.Times[0].Year() != 2099 {
		t.Errorf("preview %+v", preview)
	}
	s.refused(404, "", "GET", at("new"), "")
	s.refused(400, `schedule "x.run": expected a name`, "PATCH", at("x.run"), `{"spec":"@daily"}`)

	for _, name := range []string{"evening", "noon"} {
		s.ok(nil, "PATCH", at(name), `{"spec":"0 12 1 1 *"}`)
	}
	var names []string
	for after, next := "", true; next; next = after != "" {
		var page protocol.SchedulesPage
		s.ok(&page, "GET", schedulesPath+"?limit=2&after="+after, "")
		for _, one := range page.Schedules {
			names = append(names, one.Name)
		}
		after = page.Next
	}
	if !slices.Equal(names, []string{"evening", "morning", "noon"}) {
		t.Errorf("schedules %q", names)
	}

	var paused, resumed, anew protocol.Schedule
	if s.ok(&paused, "POST", at("noon")+"/pause", ""); !paused.Paused || !paused.Next.IsZero() {
		t.Errorf("paused %+v", paused)
	}
	if s.ok(&resumed, "POST", at("noon")+"/resume", ""); resumed.Paused || resumed.Next.IsZero() {
		t.Errorf("resumed %+v", resumed)
	}
	if s.ok(&anew, "POST", at("noon")+"/resume?from=now", ""); !anew.Next.Equal(resumed.Next) {
		t.Errorf("begun anew %+v", anew)
	}
	var run, again protocol.PushResponse
	s.ok(&run, "POST", at("morning")+"/run?msg_id=once", "")
	if s.ok(&again, "POST", at("morning")+"/run?msg_id=once", ""); run.Duplicate || !again.Duplicate || again.ID != run.ID {
		t.Errorf("run %+v, and again %+v", run, again)
	}
	var item shownItem
	if s.ok(&item, "POST", "/v1/queues/reports/pop", ""); item.ID != run.ID || item.Schedule != "morning" || item.ScheduledAt.IsZero() || *item.Payload != "report" || len(item.Headers) != 0 {
		t.Errorf("popped %+v", item)
	}
	var gone protocol.ScheduleNamed
	if s.ok(&gone, "DELETE", at("morning"), ""); gone != (protocol.ScheduleNamed{Queue: "reports", Name: "morning"}) {
		t.Errorf("deleted %+v", gone)
	}
	if e := s.refused(404, "morning", "DELETE", at("morning"), ""); e.Reason != protocol.ReasonUnknown {
		t.Errorf("%+v", e)
	}
}

// A schedule has an item as large as schedules have, however long that is in JSON.
func TestScheduleOfALargeItem(t *testing.T) {
	t.Parallel()
	s := open(t)
	payload := strings.Repeat("\x01", 60_000)
	s.ok(nil, "PATCH", schedulesPath+"/large", `{"spec":"@daily","item":{"payload":"`+strings.Repeat(`\u0001`, len(payload))+`"}}`)
	var shown protocol.Schedule
	if s.ok(&shown, "GET", schedulesPath+"/large", ""); *shown.Item.Payload != payload {
		t.Error("the payload has changed")
	}
	s.refused(400, "allowed are 65536", "PATCH", schedulesPath+"/large", `{"item":{"payload":"`+strings.Repeat("x", 1<<17)+`"}}`)
}

// A preview changes nothing, so whoever may only look has it.
func TestPreviewOfAGatewayThatShows(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Prefix: "pq"})
	var preview protocol.ScheduleTimes
	if s.ok(&preview, "POST", schedulesPath+"/new/preview", `{"spec":"@daily"}`); len(preview.Times) != protocol.ScheduleTimesShown {
		t.Errorf("preview %+v", preview)
	}
}
