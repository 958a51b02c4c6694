package calendar

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var specsOf = flag.Int("pq.specs", 0, "specs whose times of eleven years are compared; 0: a few, of two years")

// decade are the minutes of the years from 2020 on as clocks of a zone show them, for an oracle
// that looks at each. It counts from begin.
type decade struct {
	walls   []packedWall
	first   []bool    // whether a minute is the first one to show its local time
	skipped []skipped // local times that no minute shows
}

type skipped struct {
	wall packedWall
	at   int // the first minute that shows more
}

// packedWall is what a clock on the wall shows, in few bits.
type packedWall struct{ month, day, hour, minute, weekday uint8 }

var decadeBegin = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func pack(t time.Time) packedWall {
	return packedWall{uint8(t.Month()), uint8(t.Day()), uint8(t.Hour()), uint8(t.Minute()), uint8(t.Weekday())}
}

func newDecade(zone *time.Location, end time.Time) *decade {
	minutes := int(end.Sub(decadeBegin) / time.Minute)
	d := &decade{walls: make([]packedWall, minutes), first: make([]bool, minutes)}
	const margin = 48 * 60 // no clock differs by more from UTC
	shown := make([]bool, minutes+2*margin)
	locals := make([]int, minutes)
	for i := range minutes {
		local := decadeBegin.Add(time.Duration(i) * time.Minute).In(zone)
		d.walls[i] = pack(local)
		naive := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)
		locals[i] = int(naive.Sub(decadeBegin) / time.Minute)
		d.first[i] = !shown[locals[i]+margin]
		shown[locals[i]+margin] = true
	}
	most := locals[0]
	for i, local := range locals {
		for n := most + 1; n < local; n++ {
			if !shown[n+margin] {
				d.skipped = append(d.skipped, skipped{pack(decadeBegin.Add(time.Duration(n) * time.Minute)), i})
			}
		}
		most = max(most, local)
	}
	return d
}

// masks are the members of the fields of a spec, a bit each.
type masks struct {
	minute, hour, day, month, weekday uint64
	either                            bool // days of the month and of the week are both restricted
	secs                              []int
}

func masksOf(s *oracleSpec) masks {
	bits := func(p part) (mask uint64) {
		for m := range p.members {
			mask |= 1 << m
		}
		return mask
	}
	m := masks{bits(s.minute), bits(s.hour), bits(s.dayOfMonth), bits(s.month), bits(s.dayOfW), !s.dayOfMonth.star && !s.dayOfW.star, nil}
	for sec := range 60 {
		if s.secs.members[sec] {
			m.secs = append(m.secs, sec)
		}
	}
	return m
}

func (m *masks) match(w packedWall) bool {
	if m.minute>>w.minute&1 == 0 || m.hour>>w.hour&1 == 0 || m.month>>w.month&1 == 0 {
		return false
	}
	day, weekday := m.day>>w.day&1 == 1, m.weekday>>w.weekday&1 == 1
	if m.either {
		return day || weekday
	}
	return day && weekday
}

// times are the instants at which a spec fires, as seconds since the beginning.
func (d *decade) times(s *oracleSpec) (all []int64) {
	m := masksOf(s)
	gaps := d.skipped
	for i, w := range d.walls {
		afterGap := false
		for ; len(gaps) > 0 && gaps[0].at == i; gaps = gaps[1:] {
			afterGap = afterGap || !s.wild && m.match(gaps[0].wall)
		}
		begin := int64(i) * 60
		if afterGap {
			all = append(all, begin)
		}
		if !m.match(w) || !s.wild && !d.first[i] {
			continue
		}
		for _, sec := range m.secs {
			if sec > 0 || !afterGap {
				all = append(all, begin+int64(sec))
			}
		}
	}
	return all
}

// drawFrequent draws a spec that fires some thousand times a year.
func drawFrequent(r *rand.Rand, d *decade, least, most int) (s oracleSpec, want []int64) {
	for {
		s = drawSpec(r, r.IntN(4) == 0)
		if want = d.times(&s); len(want) >= least && len(want) <= most {
			return s, want
		}
	}
}

// TestDecade compares all times of two years with the times of an enumeration, or as a campaign of the
// years 2020 to 2030, in each zone: with all changes of clocks in them.
func TestDecade(t *testing.T) {
	each := (*specsOf + len(theZones) - 1) / len(theZones)
	end, least, most, zones := decadeBegin.AddDate(11, 0, 0), 10_000, 60_000, theZones
	if each == 0 {
		n := oracleSource(t).IntN(len(theZones))
		each, end, least, most, zones = 2, decadeBegin.AddDate(2, 0, 0), 1000, 10_000, theZones[n:n+1]
	}
	fired := 0
	for _, name := range zones {
		zone, err := Zone(name)
		if err != nil {
			t.Fatal(err)
		}
		r := oracleSource(t)
		d := newDecade(zone, end)
		for range each {
			s, want := drawFrequent(r, d, least, most)
			c, err := New(Rule{Spec: s.text, Zone: name})
			if err != nil {
				t.Fatalf("%q: %v", s.text, err)
			}
			got := make([]int64, 0, len(want))
			for next, ok := c.Next(decadeBegin.Add(-1)); ok && next.Before(end); next, ok = c.Next(next) {
				got = append(got, int64(next.Sub(decadeBegin)/time.Second))
			}
			compareDecade(t, s.text, name, got, want)
			got = got[:0]
			for last, ok := c.Last(end); ok && !last.Before(decadeBegin); last, ok = c.Last(last) {
				got = append(got, int64(last.Sub(decadeBegin)/time.Second))
			}
			slices.Reverse(got)
			compareDecade(t, s.text+", from the end,", name, got, want)
			fired += len(want)
		}
	}
	t.Logf("%d specs in %d zones fired %d times", each*len(zones), len(zones), fired)
}

func compareDecade(t *testing.T, spec, zone string, got, want []int64) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			var g, w []time.Time
			for _, s := range got[max(0, i-1):] {
				g = append(g, decadeBegin.Add(time.Duration(s)*time.Second))
			}
			for _, s := range want[max(0, i-1):] {
				w = append(w, decadeBegin.Add(time.Duration(s)*time.Second))
			}
			t.Errorf("%s in %s: %s", spec, zone, firstDifference(g, w))
			return
		}
	}
}
