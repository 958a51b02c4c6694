package fdbpq_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
)

// Who serves a store with schedules and runs none of them hears of it, until a process does.
func TestMaintainReportsSchedulesThatNobodyFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := maintain(t)
		m.start(t)
		passes := func(seconds int, each func()) (problems []error) {
			for range seconds {
				m.clock.advance(time.Second)
				each()
				<-time.After(time.Second)
			}
			for len(m.problems) > 0 {
				problems = append(problems, <-m.problems)
			}
			return problems
		}
		nothing := func() {}
		if problems := passes(200, nothing); len(problems) > 0 {
			t.Errorf("a store without schedules: %v", problems)
		}
		update(t, m.Store, func(tx kv.Tx) error {
			q := m.Queue("jobs")
			_, err := timetable(q).Set(tx, q, "s", []byte(`{"spec":"@every 1h"}`), nil)
			return err
		})
		problems := passes(200, nothing)
		if n := len(problems); n < 1 || n > 3 || !strings.Contains(problems[0].Error(), "no process fires") {
			t.Errorf("schedules that nobody fires for 200 seconds: %v, expected one a minute from the second on", problems)
		}
		other, err := fdbpq.Open(t.Context(), m.base, m.clock.options(0))
		if err != nil {
			t.Fatal(err)
		}
		elsewhere := schedule.New(other)
		fire := func() {
			if _, err := elsewhere.Fire(t.Context(), nil, nil); err != nil {
				t.Error(err)
			}
		}
		if problems := passes(200, fire); len(problems) > 0 {
			t.Errorf("another process fires: %v", problems)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			schedule.New(m.Store).Run(ctx, schedule.Runner{Problem: func(err error) { m.problems <- err }})
		})
		if problems := passes(200, nothing); len(problems) > 0 {
			t.Errorf("this process fires: %v", problems)
		}
		stop()
		running.Wait()
		m.stop()
	})
}
