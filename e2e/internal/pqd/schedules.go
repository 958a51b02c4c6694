package pqd

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// Kills is how often a campaign of schedules has something end.
var Kills = flag.Int("pq.kills", 0, "how often something ends beside schedules or sources; 0: a few times")

// DeadLetters is how many dead letters a bulk operation brings back, Workers how many clients work beside it.
var (
	DeadLetters = flag.Int("pq.letters", 2000, "dead letters of a bulk operation")
	Workers     = flag.Int("pq.workers", 0, "clients beside a bulk operation; 0: a few")
)

// Schedules fire beside faults, and each of their times is known beforehand.
type Schedules struct {
	testing.TB
	dial   func() *nats.Conn // to who serves
	random *rand.Rand
	start  time.Time // their first time is not before this
	waits  int
	ends   []ending
}

// ending is something that ended who fires, or may have.
type ending struct {
	what string
	at   time.Time
	late time.Duration // of the latest firing until the next ending
}

// often are their specs: each fires at the seconds that fires has, counted from the start, or
// those of a minute.
var often = []struct {
	spec  string
	fires func(sinceStart, ofMinute int64) bool
}{
	{"@every 1s", func(int64, int64) bool { return true }},
	{"@every 3s", func(sinceStart, _ int64) bool { return sinceStart%3 == 0 }},
	{"* * * * * *", func(int64, int64) bool { return true }},
	{"*/2 * * * * *", func(_, ofMinute int64) bool { return ofMinute%2 == 0 }},
	{"1/7 * * * * *", func(_, ofMinute int64) bool { return ofMinute%7 == 1 }},
	{"5,6,7,50-59 * * * * *", func(_, ofMinute int64) bool { return ofMinute >= 5 && ofMinute <= 7 || ofMinute >= 50 }},
}

const scheduleQueues = 3

func each(do func(queue, name string, n int)) {
	for q := range scheduleQueues {
		for n := range often {
			do(fmt.Sprint("often-", q), fmt.Sprint("s", n), n)
		}
	}
}

// overlap of a schedule is to push its item beside others in most cases. The last queue has
// those that pass while the first item waits.
func overlap(queue string) string {
	if queue == fmt.Sprint("often-", scheduleQueues-1) {
		return "skip"
	}
	return "allow"
}

// NewSchedules makes them. dial connects with who serves.
func NewSchedules(t testing.TB, random *rand.Rand, dial func() *nats.Conn) *Schedules {
	s := &Schedules{TB: t, dial: dial, random: random}
	began, later := time.Now(), time.Now().Add(24*time.Hour).UTC()
	each(func(queue, name string, n int) {
		s.ask("pq."+queue+".admin.schedule."+name, protocol.ScheduleChange{
			Spec: &often[n].spec, Start: &later, Missed: new("all"), Overlap: new(overlap(queue)), Item: &protocol.ScheduleItem{Payload: &name},
		}, nil)
	})
	s.start = s.changeAll("start", began, func(at *time.Time) protocol.ScheduleChange { return protocol.ScheduleChange{Start: at} })
	return s
}

// changeAll changes all schedules from a second on that is still to come. All of them know it before
// it comes, unless that takes ten times as long as what began before.
func (s *Schedules) changeAll(what string, began time.Time, change func(*time.Time) protocol.ScheduleChange) time.Time {
	s.Helper()
	at := time.Now().Add(2*time.Second + 10*time.Since(began)).Truncate(time.Second).UTC()
	each(func(queue, name string, _ int) { s.ask("pq."+queue+".admin.schedule."+name, change(&at), nil) })
	if !time.Now().Before(at) {
		s.Fatalf("the schedules were to %s at %s: %s too late", what, at, time.Since(at))
	}
	return at
}

// ask sends a request that may be repeated until it is answered.
func (s *Schedules) ask(subject string, body, result any) {
	s.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			s.Fatal(err)
		}
	}
	testenv.Await(s, subject+" is answered", func() bool {
		m, err := s.dial().Request(subject, text, testenv.Times(5*time.Second))
		if err != nil {
			return false
		}
		switch code := m.Header.Get("Nats-Service-Error-Code"); code {
		case "":
			return result == nil || json.Unmarshal(m.Data, result) == nil
		case "503", "504":
			return false
		default:
			s.Fatalf("%s: %s %s", subject, code, m.Data)
			return false
		}
	})
}

// Await waits for a moment, and every few times before that until a schedule has fired again.
func (s *Schedules) Await() {
	s.Helper()
	defer func() { <-time.After(time.Duration(s.random.Int64N(int64(time.Second / 2)))) }()
	if s.waits++; s.waits%4 != 1 {
		return
	}
	at := fmt.Sprintf("pq.often-%d.schedule.s0", s.random.IntN(scheduleQueues-1))
	var before, now protocol.Schedule
	s.ask(at, nil, &before)
	testenv.Await(s, "a schedule fires again", func() bool {
		s.ask(at, nil, &now)
		return now.Counts.Fired > before.Counts.Fired
	})
}

// Happen has something end who fires.
func (s *Schedules) Happen(what string, do func()) {
	s.ends = append(s.ends, ending{what: what, at: time.Now()})
	do()
}

// pushed notes when an item was pushed for a time.
func (s *Schedules) pushed(at, pushed time.Time) {
	n := sort.Search(len(s.ends), func(i int) bool { return s.ends[i].at.After(pushed) }) - 1
	if n >= 0 {
		s.ends[n].late = max(s.ends[n].late, pushed.Sub(at))
	}
}

// tellLateness says by how much the latest firing after each ending was late.
func (s *Schedules) tellLateness() {
	late := make(map[string][]time.Duration)
	for _, e := range s.ends {
		late[e.what] = append(late[e.what], e.late)
	}
	for what, all := range late {
		slices.Sort(all)
		s.Logf("after %s (%d): the latest firing is late by %s in the median, at most by %s", what, len(all),
			all[len(all)/2].Round(time.Millisecond), all[len(all)-1].Round(time.Millisecond))
	}
}

// Judge ends them, and compares what they have fired with what they had to.
func (s *Schedules) Judge() {
	s.Helper()
	began := time.Now()
	each(func(queue, name string, _ int) { s.ask("pq."+queue+".schedule."+name, nil, nil) })
	end := s.changeAll("end", began, func(at *time.Time) protocol.ScheduleChange { return protocol.ScheduleChange{End: at} })
	counts := make(map[string]protocol.ScheduleCount)
	each(func(queue, name string, _ int) {
		testenv.Await(s, queue+"/"+name+" is done", func() bool {
			var shown protocol.Schedule
			s.ask("pq."+queue+".schedule."+name, nil, &shown)
			counts[queue+"/"+name] = shown.Counts
			return shown.Done
		})
	})
	fired := make(map[string]map[int64]int) // by schedule, how often for each time
	each(func(queue, name string, _ int) { fired[queue+"/"+name] = make(map[int64]int) })
	for q := range scheduleQueues {
		queue := fmt.Sprint("often-", q)
		for ask := (protocol.ListRequest{Limit: 1000}); ; {
			var page protocol.Page
			s.ask("pq."+queue+".list", ask, &page)
			for _, i := range page.Items {
				header := nats.Header(i.Headers)
				at, err := time.Parse(time.RFC3339Nano, header.Get("PQ-Scheduled-At"))
				if err != nil {
					s.Fatalf("%v in %+v", err, i)
				}
				fired[queue+"/"+header.Get("PQ-Schedule")][at.Unix()]++
				s.pushed(at, i.Pushed)
			}
			if ask.After = page.Next; page.Next == "" {
				break
			}
		}
	}
	s.tellLateness()
	total, lost, doubled, wrong := 0, 0, 0, 0
	each(func(queue, name string, n int) {
		all, had := fired[queue+"/"+name], counts[queue+"/"+name]
		want := int64(0)
		for at := s.start.Unix(); at <= end.Unix(); at++ {
			if !often[n].fires(at-s.start.Unix(), at%60) {
				continue
			}
			if want++; overlap(queue) == "skip" && want > 1 {
				continue
			}
			switch all[at] {
			case 0:
				lost++
				s.Errorf("%s/%s did not fire for %s", queue, name, time.Unix(at, 0).UTC())
			case 1:
			default:
				doubled++
				s.Errorf("%s/%s fired %d times for %s", queue, name, all[at], time.Unix(at, 0).UTC())
			}
			delete(all, at)
		}
		for at := range all {
			wrong++
			s.Errorf("%s/%s fired for %s, which is none of its times", queue, name, time.Unix(at, 0).UTC())
		}
		if had.Missed != 0 || had.Fired+had.Overlapped != want || overlap(queue) == "skip" && had.Fired != min(1, want) {
			s.Errorf("%s/%s counts %+v, expected %d times", queue, name, had, want)
		}
		total += int(want)
	})
	s.Logf("%d times in %s: %d lost, %d doubled, %d wrong", total, end.Sub(s.start), lost, doubled, wrong)
}
