package fdbpq_test

import (
	"context"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/fdbpq/source"
)

// timetable are the schedules of a queue's store. They know nothing of those that fire: a process has one handle for that.
func timetable(q fdbpq.Queue) *schedule.Schedules { return schedule.New(q.Store()) }

// checked checks all rows of a store, as pqd check does.
func checked(ctx context.Context, s *fdbpq.Store) ([]string, error) {
	var problems []string
	for _, check := range []func(context.Context) ([]string, error){s.Check, schedule.New(s).Check, link.New(s).Check, source.New(s).Check} {
		more, err := check(ctx)
		if err != nil {
			return nil, err
		}
		problems = append(problems, more...)
	}
	return problems, nil
}
