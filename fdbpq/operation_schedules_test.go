package fdbpq_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
)

func configView(c *schedule.Config) string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func scheduleViewOf(s schedule.Schedule, times []time.Time) scheduleView {
	nanos := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.UnixNano()
	}
	v := scheduleView{
		Name: s.Name, Config: configView(&s.Config), Next: nanos(s.Next), Due: nanos(s.Due), Last: nanos(s.Last),
		Item: fmt.Sprintf("%+v", modelScheduleItem{string(s.Item.Headers), string(s.Item.Payload), s.Item.Priority, s.Item.HasPriority, s.Item.Key, s.Item.TTL}),
		Full: s.Full, Done: s.Done(), Fired: s.Fired, Missed: s.Missed, Overlapped: s.Overlapped, Dropped: s.Dropped,
	}
	for _, t := range times {
		v.Times += fmt.Sprintln(t.UnixNano())
	}
	return v
}

// changingSchedule is one that answers with the schedule as it is then.
func changingSchedule(name string, run func(p *process, tx kv.Tx) (schedule.Schedule, error), expect func(m *model, at moment, got outcome) outcome) operation {
	return operation{
		name: name,
		run: func(p *process, tx kv.Tx) (outcome, error) {
			s, err := run(p, tx)
			if err != nil {
				return outcome{}, err
			}
			return outcome{Schedules: []scheduleView{scheduleViewOf(s, nil)}}, nil
		},
		expect: expect,
	}
}

func setScheduleOf(queue, name string, fields map[string]any, change func(*schedule.Config), item *modelScheduleItem) operation {
	object, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	var given *schedule.Item
	if item != nil {
		given = &schedule.Item{
			Headers: []byte(item.headers), Payload: []byte(item.payload), Priority: item.priority, HasPriority: item.hasPriority,
			Key: item.key, TTL: item.ttl,
		}
	}
	return changingSchedule(fmt.Sprintf("set schedule %s of %s: %s %+v", name, queue, object, item),
		func(p *process, tx kv.Tx) (schedule.Schedule, error) {
			return timetable(p.queue(queue)).Set(tx, p.queue(queue), name, object, given)
		},
		func(m *model, at moment, _ outcome) outcome { return m.setSchedule(queue, name, at, change, item) })
}

func pauseScheduleOf(queue, name string) operation {
	return changingSchedule(fmt.Sprintf("pause schedule %s of %s", name, queue),
		func(p *process, tx kv.Tx) (schedule.Schedule, error) {
			return timetable(p.queue(queue)).Pause(tx, p.queue(queue), name)
		},
		func(m *model, at moment, _ outcome) outcome { return m.pauseSchedule(queue, name, at, true, false) })
}

func resumeScheduleOf(queue, name string, fromNow bool) operation {
	return changingSchedule(fmt.Sprintf("resume schedule %s of %s, from now %t", name, queue, fromNow),
		func(p *process, tx kv.Tx) (schedule.Schedule, error) {
			return timetable(p.queue(queue)).Resume(tx, p.queue(queue), name, fromNow)
		},
		func(m *model, at moment, _ outcome) outcome {
			return m.pauseSchedule(queue, name, at, false, fromNow)
		})
}

func deleteScheduleOf(queue, name string) operation {
	return operation{
		name: fmt.Sprintf("delete schedule %s of %s", name, queue),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			return outcome{}, timetable(p.queue(queue)).Delete(tx, p.queue(queue), name)
		},
		expect: using(queue, func(m *model, _ moment, _ outcome) outcome { return m.deleteSchedule(queue, name) }),
	}
}

func runScheduleOf(queue, name, msgID string) operation {
	return operation{
		name: fmt.Sprintf("run schedule %s of %s, id %q", name, queue, msgID),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			pushed, err := timetable(p.queue(queue)).Push(tx, p.queue(queue), name, msgID, always)
			if err != nil {
				return outcome{}, err
			}
			return pushedOf(queue, []fdbpq.Pushed{pushed}), nil
		},
		expect: func(m *model, at moment, got outcome) outcome { return m.runSchedule(queue, name, msgID, at, got) },
	}
}

// fireOf fires until nothing is due or another process has the work.
func fireOf() operation {
	return operation{
		name: "fire",
		whole: func(ctx context.Context, p *process) (out outcome, err error) {
			did := make(map[string]schedule.FiredQueue)
			for {
				fired, err := p.schedules.Fire(ctx, nil, nil)
				if errors.Is(err, kv.ErrUnavailable) {
					continue
				}
				if err != nil {
					return out, err
				}
				out.Events = append(out.Events, eventsOf(fired.Events)...)
				for _, m := range fired.Missed {
					out.Events = append(out.Events, missedTimes(m.Queue, m.Schedule, m.Reason, m.From.UnixNano(), m.To.UnixNano(), m.Count))
				}
				out.OK = out.OK || fired.Schedules > 0
				out.Retry += fired.Clock
				for _, late := range fired.Lateness {
					out.Leased += late
				}
				for queue, n := range fired.Queues {
					sum := did[queue]
					did[queue] = schedule.FiredQueue{Fired: sum.Fired + n.Fired, Missed: sum.Missed + n.Missed, Overlapped: sum.Overlapped + n.Overlapped}
				}
				if fired.Schedules == 0 && fired.Next != 1 {
					out.N, out.More, out.Ready = int64(fired.Next), fired.Busy, int64(fired.Offset)
					break
				}
			}
			for queue, n := range did {
				out.Events = append(out.Events, firedView(queue, n))
			}
			return out, nil
		},
		expect: func(m *model, at moment, _ outcome) outcome { return m.fire(at) },
	}
}

// schedulesOf lists the schedules of a queue, two a page.
func schedulesOf(queue string) operation {
	return operation{
		name: "schedules " + queue,
		look: func(p *process, r kv.Reader) (out outcome, err error) {
			sum, err := timetable(p.queue(queue)).Summary(r, p.queue(queue))
			if err != nil {
				return out, err
			}
			if out.N = sum.Count; !sum.Next.IsZero() {
				out.Ready = sum.Next.UnixNano()
			}
			for after := ""; ; {
				page, err := timetable(p.queue(queue)).List(r, p.queue(queue), after, 2)
				if err != nil || len(page) == 0 {
					return out, err
				}
				for _, s := range page {
					out.Schedules = append(out.Schedules, scheduleViewOf(s, nil))
				}
				after = page[len(page)-1].Name
			}
		},
		expect: func(m *model, _ moment, _ outcome) outcome { return m.listSchedules(queue) },
	}
}

func showScheduleOf(queue, name string, times int) operation {
	return operation{
		name: fmt.Sprintf("schedule %s of %s", name, queue),
		look: func(p *process, r kv.Reader) (outcome, error) {
			s, next, err := timetable(p.queue(queue)).Get(r, p.queue(queue), name, times)
			if err != nil {
				return outcome{}, err
			}
			return outcome{Schedules: []scheduleView{scheduleViewOf(s, next)}}, nil
		},
		expect: func(m *model, _ moment, _ outcome) outcome { return m.showSchedule(queue, name, times) },
	}
}

func previewScheduleOf(queue, name string, fields map[string]any, change func(*schedule.Config), times int) operation {
	object, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return operation{
		name: fmt.Sprintf("preview schedule %s of %s: %s", name, queue, object),
		look: func(p *process, r kv.Reader) (outcome, error) {
			next, err := timetable(p.queue(queue)).Preview(r, p.queue(queue), name, object, nil, times)
			if err != nil {
				return outcome{}, err
			}
			return outcome{Schedules: []scheduleView{{Times: scheduleViewOf(schedule.Schedule{}, next).Times}}}, nil
		},
		expect: func(m *model, at moment, _ outcome) outcome {
			return m.previewSchedule(queue, name, at, change, times)
		},
	}
}

// Schedules are few, of two queues: a firing then does all that is due in one transaction.
func scheduleName(rng *rand.Rand) (queue, name string) {
	return pick(rng, "a", "a", "b"), pick(rng, "s", "t", "u")
}

// scheduling generates a change of a schedule.
func (w *world) scheduling(rng *rand.Rand) operation {
	queue, name := scheduleName(rng)
	if !w.narrow && rng.IntN(12) == 0 {
		n := pick[int64](rng, 0, 0, 1, 2)
		return configureOf(queue, map[string]any{"max_length": n}, func(c *fdbpq.Config) { c.MaxLength = n }, true)
	}
	switch rng.IntN(12) {
	case 0:
		return pauseScheduleOf(queue, name)
	case 1, 2:
		return resumeScheduleOf(queue, name, rng.IntN(3) == 0)
	case 3:
		return deleteScheduleOf(queue, name)
	case 4, 5:
		return runScheduleOf(queue, name, pick(rng, "", "", "id 0", "id 1"))
	}
	fields, change := w.scheduleFields(rng)
	var item *modelScheduleItem
	if rng.IntN(2) == 0 {
		item = &modelScheduleItem{payload: pick(rng, "", "report", strings.Repeat("long\x00", 300)), headers: pick(rng, "", "A: b\r\n"), key: w.key(rng)}
		if item.hasPriority = rng.IntN(2) == 0; item.hasPriority {
			item.priority = w.priority(rng)
		}
		item.ttl = pick(rng, 0, 0, 0, time.Second, time.Minute)
	}
	return setScheduleOf(queue, name, fields, change, item)
}

// showingSchedule generates a look at a schedule.
func (w *world) showingSchedule(rng *rand.Rand) operation {
	queue, name := scheduleName(rng)
	if rng.IntN(2) == 0 {
		return showScheduleOf(queue, name, pick(rng, 1, 3, 10))
	}
	fields, change := w.scheduleFields(rng)
	return previewScheduleOf(queue, name, fields, change, pick(rng, 1, 3, 10))
}

// scheduleFields generates some fields of a schedule.
func (w *world) scheduleFields(rng *rand.Rand) (map[string]any, func(*schedule.Config)) {
	fields := make(map[string]any)
	var changes []func(*schedule.Config)
	set := func(name string, value any, change func(*schedule.Config)) {
		fields[name] = value
		changes = append(changes, change)
	}
	about := wallStart.Add(w.elapsed).UTC().Truncate(time.Second)
	if rng.IntN(3) > 0 {
		soon := about.Add(time.Duration(rng.IntN(20)) * time.Minute)
		spec := pick(rng,
			"@every 7s", "@every 30s", "@every 90s", "@every 1300s", "*/10 * * * * *", "*/25 * * * * *", "*/1 * * * *", "*/7 * * * *", "*/20 * * * *",
			"@hourly", fmt.Sprintf("%d %d * * *", soon.Minute(), soon.Hour()), "@at "+about.Add(time.Duration(rng.IntN(1200)-100)*time.Second).Format(time.RFC3339), "@every", "",
		)
		set("spec", spec, func(c *schedule.Config) { c.Spec = spec })
	}
	for range rng.IntN(4) {
		switch rng.IntN(8) {
		case 0: // few times fire at once: 25 of every 7 seconds at most, as in one turn beside another queue
			missed := pick(rng, schedule.MissedOne, schedule.MissedAll)
			catchUp := pick(rng, 10*time.Second, 40*time.Second, 170*time.Second)
			if missed == schedule.MissedOne {
				catchUp = pick(rng, catchUp, time.Hour)
			}
			set("missed", missed, func(c *schedule.Config) { c.Missed = missed })
			set("catch_up", catchUp.String(), func(c *schedule.Config) { c.CatchUp = fdbpq.Duration(catchUp) })
		case 1, 2:
			overlap := pick(rng, schedule.OverlapSkip, schedule.OverlapOne, schedule.OverlapOne, schedule.OverlapReplace, schedule.OverlapAllow)
			set("overlap", overlap, func(c *schedule.Config) { c.Overlap = overlap })
		case 3:
			count := pick[int64](rng, 0, 1, 5)
			set("count", count, func(c *schedule.Config) { c.Count = count })
		case 4, 5:
			name := pick(rng, "start", "start", "end")
			bound := new(about.Add(time.Duration(rng.IntN(1200)-200) * time.Second))
			if rng.IntN(2) == 0 {
				bound = nil
			}
			set(name, bound, func(c *schedule.Config) {
				if name == "start" {
					c.Start = bound
				} else {
					c.End = bound
				}
			})
		case 6:
			paused := rng.IntN(2) == 0
			set("paused", paused, func(c *schedule.Config) { c.Paused = paused })
		case 7:
			zone := pick(rng, "UTC", "UTC", "Etc/UTC")
			set("zone", zone, func(c *schedule.Config) { c.Zone = zone })
		}
	}
	return fields, func(c *schedule.Config) {
		for _, change := range changes {
			change(c)
		}
	}
}
