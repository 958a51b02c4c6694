package fdbpq_test

import (
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
)

// timetable are the schedules of a queue's store. They know nothing of those that fire: a process has one handle for that.
func timetable(q fdbpq.Queue) *schedule.Schedules { return schedule.New(q.Store()) }
