package bridge

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/events"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/fdbpq/source"
)

// unasked returns a function that says whether a queue takes new items that no request brings: items of schedules
// and sources. They cost requests of the tenant, too, and wait until it has some. ended is to be called after the
// transaction.
func unasked(room desk.Room, all *tenants.Tenants) func(queue string, items, bytes int) (ended func(), full error) {
	return func(queue string, items, bytes int) (func(), error) {
		t := all.OfQueue(queue)
		if f := t.Left(); f != nil {
			return func() {}, f
		}
		to := t.Open()
		return to.End, room(to, items, bytes)
	}
}

// fired counts the firings of schedules and their cost, and announces missed times and a clock that was set.
func fired(re *request.Responder, to *events.Announcer, all *tenants.Tenants) func(schedule.Fired) {
	return func(f schedule.Fired) {
		for queue, n := range f.Queues {
			charge(all, queue, int(n.Fired+n.Overlapped), int(n.Bytes))
			re.Stats.Moved(queue, request.FlowIn, int(n.Fired))
			re.Stats.Queues.Count(queue, &request.Tally{request.Pushed: n.Fired, request.ScheduleFired: n.Fired,
				request.ScheduleMissed: n.Missed, request.ScheduleOverlapped: n.Overlapped})
		}
		for i := range f.Missed {
			to.ScheduleMissed(&f.Missed[i])
		}
		re.Stats.Fired(f.Lateness, f.Offset)
		if f.Clock != 0 {
			by := f.Clock.Round(time.Millisecond)
			re.Log.Warn("set the clock of schedules to this machine's", "by", by)
			to.Clock(by)
		}
	}
}

// fed counts the messages of sources, and their cost.
func fed(re *request.Responder, to *events.Announcer, all *tenants.Tenants) func(queue string, bytes int, f *source.Fed) {
	return func(queue string, bytes int, f *source.Fed) {
		charge(all, queue, f.Done, bytes)
		re.Stats.Moved(queue, request.FlowIn, f.Pushed)
		re.Stats.Queues.Count(queue, &request.Tally{request.Pushed: int64(f.Pushed), request.Duplicates: int64(f.Known), request.Dead: int64(f.Poisoned)})
		to.Items(f.Events)
	}
}

// charge takes requests for items that no request brought.
func charge(all *tenants.Tenants, queue string, items, bytes int) {
	all.OfQueue(queue).Charge(items + bytes/request.OwedBytes)
}

// found charges the keys that sweeps find after a change of the configuration.
func found(all *tenants.Tenants) func(fdbpq.Found) {
	return func(keys fdbpq.Found) {
		for queue, n := range keys {
			all.OfQueue(queue).Weigh(tenants.CostOfKeys(n))
		}
	}
}
