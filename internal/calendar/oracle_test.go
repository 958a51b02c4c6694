package calendar

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// The oracle knows what the page about schedules says, and nothing of how this package does
// it: it looks at each minute, or second, of a window, and at what a clock on the wall shows.

// wall is what a clock on the wall shows.
type wall struct {
	year               int
	month, day         int
	hour, minute, secs int
	weekday            int
}

func wallOf(t time.Time) wall {
	year, month, day := t.Date()
	hour, minute, secs := t.Clock()
	return wall{year, int(month), day, hour, minute, secs, int(t.Weekday())}
}

func (w wall) naive() time.Time {
	return time.Date(w.year, time.Month(w.month), w.day, w.hour, w.minute, w.secs, 0, time.UTC)
}

// part is a field of a spec: its text, and what the text means.
type part struct {
	text    string
	members map[int]bool
	star    bool
}

// drawPart draws a field with values from first to last.
func drawPart(r *rand.Rand, first, last int, starred float64) part {
	if r.Float64() < starred {
		return part{text: "*", members: set(first, last, 1), star: true}
	}
	p := part{members: make(map[int]bool)}
	var texts []string
	for range 1 + r.IntN(2) {
		low := first + r.IntN(last-first+1)
		high := low + r.IntN(last-low+1)
		step := 1 + r.IntN(max(1, (last-first)/2))
		var members map[int]bool
		switch r.IntN(5) {
		case 0:
			texts, members = append(texts, fmt.Sprint(low)), set(low, low, 1)
		case 1:
			texts, members = append(texts, fmt.Sprintf("%d-%d", low, high)), set(low, high, 1)
		case 2:
			texts, members = append(texts, fmt.Sprintf("%d-%d/%d", low, high, step)), set(low, high, step)
		case 3:
			texts, members = append(texts, fmt.Sprintf("%d/%d", low, step)), set(low, last, step)
		default:
			texts, members = append(texts, fmt.Sprintf("*/%d", step)), set(first, last, step)
			p.star = p.star || step == 1
		}
		for m := range members {
			p.members[m] = true
		}
	}
	p.text = strings.Join(texts, ",")
	return p
}

func set(low, high, step int) map[int]bool {
	members := make(map[int]bool)
	for v := low; v <= high; v += step {
		members[v] = true
	}
	return members
}

// oracleSpec is a spec that was drawn with its meaning.
type oracleSpec struct {
	text                                          string
	secs, minute, hour, dayOfMonth, month, dayOfW part
	wild                                          bool
}

func drawSpec(r *rand.Rand, withSeconds bool) oracleSpec {
	s := oracleSpec{
		secs:   part{text: "0", members: set(0, 0, 1)},
		minute: drawPart(r, 0, 59, 0.2), hour: drawPart(r, 0, 23, 0.2),
		dayOfMonth: drawPart(r, 1, 31, 0.6), month: drawPart(r, 1, 12, 0.8), dayOfW: drawPart(r, 0, 6, 0.6),
	}
	if r.IntN(3) == 0 { // most of these shifts happen in the night
		low := r.IntN(4)
		s.hour = part{text: fmt.Sprintf("%d-%d,23", low, low+1), members: map[int]bool{low: true, low + 1: true, 23: true}}
	}
	s.text = strings.Join([]string{s.minute.text, s.hour.text, s.dayOfMonth.text, s.month.text, s.dayOfW.text}, " ")
	if withSeconds {
		s.secs = drawPart(r, 0, 59, 0.1)
		s.text = s.secs.text + " " + s.text
	}
	s.wild = s.minute.text[0] == '*' || s.hour.text[0] == '*'
	return s
}

func (s *oracleSpec) matches(w wall) bool {
	if !s.secs.members[w.secs] || !s.minute.members[w.minute] || !s.hour.members[w.hour] || !s.month.members[w.month] {
		return false
	}
	month, week := s.dayOfMonth.members[w.day], s.dayOfW.members[w.weekday]
	if !s.dayOfMonth.star && !s.dayOfW.star {
		return month || week
	}
	return month && week
}

// window is a time that the oracle has looked at in steps.
type window struct {
	instants []time.Time
	walls    []wall
	first    map[time.Time]int // the first instant that shows a local time
	naive    []wall            // each local time between the first one and the last one, shown or not
}

func newWindow(begin, end time.Time, step time.Duration, zone *time.Location) *window {
	w := &window{first: make(map[time.Time]int)}
	for t := begin; t.Before(end); t = t.Add(step) {
		shown := wallOf(t.In(zone))
		if _, seen := w.first[shown.naive()]; !seen {
			w.first[shown.naive()] = len(w.instants)
		}
		w.instants, w.walls = append(w.instants, t), append(w.walls, shown)
	}
	earliest, latest := w.walls[0].naive(), w.walls[0].naive()
	for local := range w.first {
		if local.Before(earliest) {
			earliest = local
		}
		if local.After(latest) {
			latest = local
		}
	}
	for t := earliest; !t.After(latest); t = t.Add(step) {
		w.naive = append(w.naive, wallOf(t))
	}
	return w
}

// times are the instants at which a spec fires, from one on.
func (w *window) times(s *oracleSpec, from time.Time) []time.Time {
	fires := make(map[time.Time]bool)
	if s.wild {
		for i, shown := range w.walls {
			if s.matches(shown) {
				fires[w.instants[i]] = true
			}
		}
	} else {
		for _, local := range w.naive {
			if !s.matches(local) {
				continue
			}
			if i, shown := w.first[local.naive()]; shown {
				fires[w.instants[i]] = true
				continue
			}
			for i, shown := range w.walls { // the first instant after the gap
				if shown.naive().After(local.naive()) {
					fires[w.instants[i]] = true
					break
				}
			}
		}
	}
	var times []time.Time
	for t := range fires {
		if !t.Before(from) {
			times = append(times, t)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// theZones change their clocks in many ways: by half an hour, by two hours and by three, at
// midnight, over midnight, around Ramadan, and for good.
var theZones = []string{
	"Europe/Berlin", "Europe/London", "Europe/Dublin", "America/New_York", "America/St_Johns", "America/Santiago",
	"America/Havana", "America/Asuncion", "America/Nuuk", "America/Scoresbysund", "Africa/Casablanca", "Africa/Cairo", "Asia/Beirut",
	"Asia/Gaza", "Asia/Tehran", "Asia/Amman", "Australia/Lord_Howe", "Antarctica/Troll", "Antarctica/Casey", "Pacific/Apia", "Pacific/Chatham",
}

// changes are the instants between 2020 and 2030 at which the clocks of a zone change.
func changes(t *testing.T, zone *time.Location) (all []time.Time) {
	t.Helper()
	_, before := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).In(zone).Zone()
	for day := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2031; day = day.AddDate(0, 0, 1) {
		_, after := day.AddDate(0, 0, 1).In(zone).Zone()
		for at := day; before != after; at = at.Add(15 * time.Minute) {
			if _, offset := at.In(zone).Zone(); offset != before {
				all, before = append(all, at), offset
			}
		}
	}
	return all
}

// compareWithOracle draws some of the changes of a zone's clocks and, for each, specs until some have
// fired beside it.
func compareWithOracle(t *testing.T, name string, reach, step time.Duration, withSeconds bool, some, specs int) {
	t.Helper()
	r := oracleSource(t)
	zone, err := Zone(name)
	if err != nil {
		t.Fatal(err)
	}
	all := changes(t, zone)
	if len(all) == 0 {
		t.Fatalf("%s: no change of clocks was found", name)
	}
	for _, i := range r.Perm(len(all))[:min(some, len(all))] {
		change := all[i]
		margin := 4 * time.Hour // a local time may have been shown, or skipped, before
		begin, end := change.Add(-reach), change.Add(reach)
		w := newWindow(begin.Add(-margin), end, step, zone)
		for fired := 0; fired < specs; {
			s := drawSpec(r, withSeconds)
			want := w.times(&s, begin)
			if len(want) > 0 {
				fired++
			}
			c, err := New(Rule{Spec: s.text, Zone: name})
			if err != nil {
				t.Fatalf("%q: %v", s.text, err)
			}
			var forward []time.Time
			for next, ok := c.Next(begin.Add(-1)); ok && next.Before(end); next, ok = c.Next(next) {
				forward = append(forward, next)
			}
			if !slices.EqualFunc(forward, want, time.Time.Equal) {
				t.Fatalf("%q in %s around %s: %s", s.text, name, change, firstDifference(forward, want))
			}
			var backward []time.Time
			for last, ok := c.Last(end); ok && !last.Before(begin); last, ok = c.Last(last) {
				backward = append(backward, last)
			}
			slices.Reverse(backward)
			if !slices.EqualFunc(backward, want, time.Time.Equal) {
				t.Fatalf("%q in %s around %s, from the end: %s", s.text, name, change, firstDifference(backward, want))
			}
		}
	}
}

// firstDifference says where two lists of times begin to differ.
func firstDifference(got, want []time.Time) string {
	for i := 0; ; i++ {
		switch {
		case i == len(got):
			return fmt.Sprintf("no time, expected %s", want[i])
		case i == len(want):
			return fmt.Sprintf("the time %s, expected none", got[i])
		case !got[i].Equal(want[i]):
			return fmt.Sprintf("the time %s, expected %s", got[i], want[i])
		}
	}
}

func oracleSource(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestEachMinute compares the times with the times of an enumeration, around changes of the clocks of
// these zones.
func TestEachMinute(t *testing.T) {
	for _, zone := range theZones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			compareWithOracle(t, zone, 20*time.Hour, time.Minute, false, 5, 2)
		})
	}
}

// TestEachSecond does so with seconds, closer to one change of each zone.
func TestEachSecond(t *testing.T) {
	for _, zone := range theZones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			compareWithOracle(t, zone, 90*time.Minute, time.Second, true, 1, 2)
		})
	}
}
