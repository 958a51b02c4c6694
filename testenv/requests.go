package testenv

import (
	"testing"

	"github.com/pqbridge/pqbridge/subjects"
)

// Requests returns a well-formed subject of each verb that a client may ask of a queue.
func Requests(t testing.TB, g subjects.Grammar, queue string) map[subjects.Verb]string {
	t.Helper()
	all := make(map[subjects.Verb]string)
	for v := subjects.Push; v < subjects.Event; v++ {
		s := subjects.Subject{Queue: queue, Verb: v}
		switch v {
		case subjects.Get, subjects.Remove, subjects.Requeue, subjects.Revoke:
			s.ID = "x"
		case subjects.Move:
			s.ID, s.Priority, s.HasPriority = "x", 5, true
		case subjects.Key, subjects.AdminKey:
			s.Key = "k"
		case subjects.Schedule, subjects.AdminSchedule, subjects.AdminSchedulePause,
			subjects.AdminScheduleResume, subjects.AdminScheduleDelete, subjects.AdminScheduleRun:
			s.Schedule = "s"
		case subjects.AdminSource, subjects.AdminSourcePause, subjects.AdminSourceResume, subjects.AdminSourceDelete:
			s.Source = "s"
		case subjects.Link, subjects.AdminLink, subjects.AdminLinkPause, subjects.AdminLinkResume, subjects.AdminLinkDelete:
			s.Link = "l"
		case subjects.Ack:
			s.Conn, s.Token = "c", "t"
		}
		text, err := g.Build(s)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		all[v] = text
	}
	return all
}
