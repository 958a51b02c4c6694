package fdbpq_test

import (
	"context"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
)

// timetable are the schedules of a queue's store. They know nothing of those that fire: a process has one handle for that.
func timetable(q fdbpq.Queue) *schedule.Schedules { return schedule.New(q.Store()) }

// checked checks all rows of a store, as pqd check does.
func checked(ctx context.Context, s *fdbpq.Store) ([]string, error) {
	problems, err := s.Check(ctx)
	if err != nil {
		return nil, err
	}
	more, err := schedule.New(s).Check(ctx)
	return append(problems, more...), err
}
