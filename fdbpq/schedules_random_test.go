package fdbpq_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// scheduleLife is a schedule from the time at which it was made, as the test knows it. Its truth
// is that the schedule fires every so many seconds.
type scheduleLife struct {
	queue, name string
	every       int64
	ofMinute    bool  // at seconds of the minute, not from its creation
	made        int64 // Unix seconds, to a few seconds
	settled     int64 // until then all times must have fired
	fired       []int64
}

const lifeSlack = 4 // seconds by which the clocks of processes may differ, and more

// judge compares what a schedule has fired with the truth.
func (l *scheduleLife) judge(t *testing.T) {
	t.Helper()
	slices.Sort(l.fired)
	for i, at := range l.fired {
		if l.ofMinute && at%60%l.every != 0 {
			t.Errorf("%s/%s fired at %d, which is none of its times", l.queue, l.name, at)
		}
		if i > 0 && at == l.fired[i-1] {
			t.Errorf("%s/%s fired twice at %d", l.queue, l.name, at)
		}
		next := at + l.every
		if l.ofMinute && next/60 != at/60 {
			next = (at/60 + 1) * 60
		}
		if i+1 < len(l.fired) && l.fired[i+1] != next && l.fired[i+1] != at {
			t.Errorf("%s/%s fired at %d and %d, expected %d between", l.queue, l.name, at, l.fired[i+1], next)
		}
	}
	if l.settled-l.made <= l.every+2*lifeSlack {
		return
	}
	if len(l.fired) == 0 || l.fired[0] > l.made+l.every+lifeSlack || l.fired[0] < l.made-lifeSlack {
		t.Errorf("%s/%s was made at %d and fires every %d seconds: it fired at %v", l.queue, l.name, l.made, l.every, l.fired)
	} else if last := l.fired[len(l.fired)-1]; last < l.settled-l.every-lifeSlack {
		t.Errorf("%s/%s fired at %d last, although all until %d should have fired", l.queue, l.name, last, l.settled)
	}
}

// Each time of a schedule fires once: with processes that fail in the middle of a firing, that
// are stopped, and whose clocks are a little off; in queues that are full, and deleted and made
// again.
func TestSchedulesUnderFaults(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		seed := randomSeed(t)
		w := newScheduleWorld(t, openFixture(t, open), seed)
		w.make() // one at least, which fires however few steps there are
		for range fewer(t, 1500) {
			w.step()
		}
		w.settle()
		for _, l := range w.lives {
			w.take(l.queue)
		}
		fired := 0
		for _, l := range append(w.ended, w.lives...) {
			l.judge(t)
			fired += len(l.fired)
		}
		if fired == 0 {
			t.Error("nothing fired")
		}
		t.Logf("%d schedules fired %d times", len(w.ended)+len(w.lives), fired)
	})
}

// scheduleWorld is a store with a process that never fails, and others that do.
type scheduleWorld struct {
	*fixture
	t      *testing.T
	rng    *rand.Rand
	others []*fixture
	lives  []*scheduleLife
	ended  []*scheduleLife
	made   int
}

func newScheduleWorld(t *testing.T, f *fixture, seed uint64) *scheduleWorld {
	w := &scheduleWorld{fixture: f, t: t, rng: rand.New(rand.NewPCG(seed, 1))}
	for range 2 {
		w.others = append(w.others, nil)
		w.replace(len(w.others) - 1)
	}
	return w
}

// replace has another process take the place of one, which is gone in the middle of what it does.
func (w *scheduleWorld) replace(n int) {
	if w.others[n] != nil {
		w.others[n].db.Crash()
	}
	skew := time.Duration(w.rng.Int64N(int64(1600*time.Millisecond))) - 800*time.Millisecond
	other := w.another(skew)
	w.others[n] = other
	w.t.Cleanup(func() { other.db.Release() }) // late commits
	w.others[n].db.SetChances(fault.Chances{
		fault.Conflict: 0.05, fault.UnknownNever: 0.04, fault.UnknownDone: 0.04, fault.UnknownLate: 0.04, fault.Unavailable: 0.03,
	})
}

func (w *scheduleWorld) wall() int64 {
	return 1_800_000_000 + w.clock.elapsed.Load()/int64(time.Second)
}

func (w *scheduleWorld) step() {
	switch n := w.rng.IntN(100); {
	case n < 70:
		w.pass(time.Duration(w.rng.Int64N(int64(4 * time.Second))))
		other := w.others[w.rng.IntN(len(w.others))]
		for range 3 {
			ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
			_, err := other.schedules.Fire(ctx, nil, nil)
			cancel()
			if err != nil && !errors.Is(err, kv.ErrUnavailable) && !errors.Is(err, kv.ErrUnknown) {
				w.t.Fatal(err)
			}
		}
	case n < 72:
		w.settle()
	case n < 80:
		if len(w.lives) < 6 {
			w.make()
		}
	case n < 82:
		if len(w.lives) > 0 { // a schedule goes
			w.end(w.rng.IntN(len(w.lives)), func(tx kv.Tx, l *scheduleLife) error {
				return timetable(w.Queue(l.queue)).Delete(tx, w.Queue(l.queue), l.name)
			})
		}
	case n < 83:
		if len(w.lives) > 0 { // its queue goes
			queue := w.lives[w.rng.IntN(len(w.lives))].queue
			w.take(queue)
			var taken []popped
			w.update(func(tx kv.Tx) error {
				taken = w.popAll(tx, queue)
				_, err := w.Queue(queue).Delete(tx)
				return err
			})
			w.note(queue, taken)
			w.lives = slices.DeleteFunc(w.lives, func(l *scheduleLife) bool {
				if l.queue == queue {
					w.ended = append(w.ended, l)
				}
				return l.queue == queue
			})
		}
	case n < 87:
		w.configure(w.queue(), fmt.Sprintf(`{"max_length":%d}`, []int{0, 3}[w.rng.IntN(2)]))
	case n < 95:
		w.take(w.queue())
	default:
		w.replace(w.rng.IntN(len(w.others)))
	}
}

func (w *scheduleWorld) queue() string { return fmt.Sprintf("q%d", w.rng.IntN(2)) }

func (w *scheduleWorld) make() {
	w.made++
	l := &scheduleLife{queue: w.queue(), name: fmt.Sprintf("s%d", w.made), every: 3 + w.rng.Int64N(20), made: w.wall()}
	if w.rng.IntN(3) == 0 {
		l.name = "again" // a name that others have had
		for _, other := range w.lives {
			if other.queue == l.queue && other.name == l.name {
				return
			}
		}
	}
	spec := fmt.Sprintf("@every %ds", l.every)
	if l.ofMinute = w.rng.IntN(2) == 0; l.ofMinute {
		spec = fmt.Sprintf("*/%d * * * * *", l.every)
	}
	w.schedule(l.queue, l.name, fmt.Sprintf(`{"spec":%q,"missed":"all","catch_up":"8760h","overlap":"allow"}`, spec))
	l.settled = l.made
	w.lives = append(w.lives, l)
}

// end ends a schedule, with what it has fired until then.
func (w *scheduleWorld) end(n int, remove func(kv.Tx, *scheduleLife) error) {
	l := w.lives[n]
	w.take(l.queue)
	var taken []popped
	w.update(func(tx kv.Tx) error {
		taken = w.popAll(tx, l.queue)
		return remove(tx, l)
	})
	w.note(l.queue, taken)
	w.ended, w.lives = append(w.ended, l), slices.Delete(w.lives, n, n+1)
}

// popped is an item of a schedule.
type popped struct {
	name string
	at   int64
}

func (w *scheduleWorld) popAll(tx kv.Tx, queue string) (taken []popped) {
	for {
		got, err := w.Queue(queue).Pop(tx, fdbpq.Selection{Limit: 100})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, item := range got.Items {
			name, at := nominal(w.t, item.Headers)
			taken = append(taken, popped{name, at.Unix()})
		}
		if len(got.Items) == 0 {
			return taken
		}
	}
}

// take pops what schedules have pushed.
func (w *scheduleWorld) take(queue string) {
	var taken []popped
	w.update(func(tx kv.Tx) error {
		taken = w.popAll(tx, queue)
		return nil
	})
	w.note(queue, taken)
}

func (w *scheduleWorld) note(queue string, taken []popped) {
	for _, p := range taken {
		n := slices.IndexFunc(w.lives, func(l *scheduleLife) bool { return l.queue == queue && l.name == p.name })
		if n < 0 {
			w.t.Fatalf("%s/%s fired at %d, although there is no such schedule", queue, p.name, p.at)
		}
		w.lives[n].fired = append(w.lives[n].fired, p.at)
	}
}

// settle has the process that never fails fire all that is due.
func (w *scheduleWorld) settle() {
	for _, queue := range []string{"q0", "q1"} {
		w.configure(queue, `{"max_length":0}`)
	}
	for tries := 0; ; tries++ {
		w.pass(6 * time.Second) // the term of another one, and the pause after a queue was full
		now := w.wall()
		w.fire()
		fired, err := w.schedules.Fire(w.Context(), nil, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		if fired.Busy && tries < 10 {
			continue
		}
		for _, l := range w.lives {
			l.settled = now
		}
		return
	}
}
