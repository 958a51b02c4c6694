package schedule

import (
	"fmt"
	"math"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/internal/calendar"
)

// plan is a definition as its schedule works with it.
type plan struct {
	Config
	times       *calendar.Calendar
	queue, name string
}

func newPlan(queue, name string, c Config, created int64) (*plan, error) {
	rule := calendar.Rule{Spec: c.Spec, Zone: c.Zone, Created: instant(created - created%int64(time.Second))}
	if c.Start != nil {
		rule.Start = *c.Start
	}
	if c.End != nil {
		rule.End = *c.End
	}
	times, err := calendar.New(rule)
	if err != nil {
		return nil, wrong(err)
	}
	return &plan{Config: c, times: times, queue: queue, name: name}, nil
}

// left is how many more times the schedule may fire after those that have.
func (p *plan) left(fired int64) int {
	if p.Count == 0 {
		return math.MaxInt
	}
	return int(max(0, p.Count-fired))
}

// instant turns a schedule time into the time of day that it stands for.
func instant(at int64) time.Time { return time.Unix(0, at).UTC() }

// dueAt is when a time fires: later by its jitter, and before the next time in any case, so
// that times fire in their order.
func (p *plan) dueAt(t time.Time) time.Time {
	if p.Jitter == 0 {
		return t
	}
	most := int64(p.Jitter)
	if next, ok := p.times.Next(t); ok {
		most = min(most, int64(next.Sub(t)))
	}
	return t.Add(time.Duration(jitterOf(p.queue, p.name, t.UnixNano(), most)))
}

// dense reports whether the schedule fires twice within a minute soon.
func (p *plan) dense(after time.Time) bool {
	times := p.times.Preview(after, denseTimes)
	for i := 1; i < len(times); i++ {
		if times[i].Sub(times[i-1]) < denseGap {
			return true
		}
	}
	return false
}

// jitterOf is the part of a time that a schedule is late on purpose, the same for all
// processes.
func jitterOf(queue, name string, at, most int64) int64 {
	return int64(inside.Fraction(fmt.Appendf(nil, "%s %s %d", queue, name, at)) * float64(most))
}
