package gateway

import (
	"strings"
	"testing"
)

// The history of a queue is there for whoever may have its info, and for nobody else.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.refused(404, "no queue jobs", "GET", "/v1/queues/jobs/history", "")
	s.make("jobs")
	var h struct {
		Bridge            string
		Step              float64
		Push, Pop, Settle []int64
		Ready             []*int64
		Failed            []int64
		Dead, LeasesLost  []int64
		End               string
	}
	s.ok(&h, "GET", "/v1/queues/jobs/history", "")
	if h.Bridge == "" || h.Step != 60 || len(h.Push) != 60 || len(h.Pop) != 60 || len(h.Settle) != 60 || len(h.Ready) != 60 || h.Failed != nil || h.End == "" {
		t.Errorf("%+v", h)
	}
	all := h
	all.Ready = nil
	s.ok(&all, "GET", "/v1/history", "")
	if all.Bridge != h.Bridge || len(all.Push) != 60 || len(all.Failed) != 60 || len(all.Dead) != 60 || all.Ready != nil {
		t.Errorf("%+v", all)
	}
	var bridges struct{ Bridges []struct{ ID string } }
	if s.ok(&bridges, "GET", "/v1/bridges", ""); len(bridges.Bridges) != 1 || bridges.Bridges[0].ID != h.Bridge {
		t.Errorf("%+v, expected the bridge %s", bridges, h.Bridge)
	}
	s.refused(400, "expected none", "GET", "/v1/history?queue=jobs", "")
	if r := s.send("GET", "/v1/queues/jobs", ""); strings.Contains(r.body, "history") {
		t.Errorf("info has a history that nobody asked for: %s", r.body)
	}
}
