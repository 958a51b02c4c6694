// Package calendar says at which instants a schedule fires. It is pure: it knows no
// clock and no store, and reads no zone of the machine.
//
// A calendar has a time T if and only if Next returns T for all instants from the time
// before T on. Next and Last walk the same times in the two directions. The same
// arguments and the same [ZoneData] always give the same times.
package calendar

import (
	"archive/zip"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Horizon is how far Next and Last look for a time. Every date that can occur at all occurs within it: 29 February
// may be missing for eight years.
const Horizon = (8*366 + 2) * 24 * time.Hour

// MaxSpec bounds the bytes of a spec.
const MaxSpec = 256

// MinEvery and MaxEvery bound the interval of @every.
const (
	MinEvery = time.Second
	MaxEvery = 8 * 365 * 24 * time.Hour
)

// The times that a calendar may name. Nanoseconds since 1970 fit an int64 with Horizon to spare.
var (
	earliest = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2199, 12, 31, 23, 59, 59, 0, time.UTC)
)

// Rule describes a calendar.
type Rule struct {
	Spec string // @at, @every, a name such as @daily, or five or six fields
	Zone string // IANA name, of fields and names only; "": UTC

	// Start and End bound the times, both included; zero: no bound.
	Start, End time.Time

	// Created is the time from which @every counts if there is no Start: its first time is an
	// interval later.
	Created time.Time
}

// Calendar is a set of instants.
type Calendar struct {
	start, end int64 // the bounds in Unix nanoseconds, both included

	at    int64         // the only instant, if every is 0 and there are no fields
	every time.Duration // the distance of the instants, which begin at start
	cron  *cron
}

// names stand for fields: seconds, minutes, hours, days of the month, months, days of the week.
var names = map[string]string{
	"@yearly":   "0 0 0 1 1 *",
	"@annually": "0 0 0 1 1 *",
	"@monthly":  "0 0 0 1 * *",
	"@weekly":   "0 0 0 * * 0",
	"@daily":    "0 0 0 * * *",
	"@midnight": "0 0 0 * * *",
	"@hourly":   "0 0 * * * *",
}

// New returns the calendar of a rule. Its errors say what was expected.
func New(r Rule) (*Calendar, error) {
	c := &Calendar{start: earliest.UnixNano(), end: latest.UnixNano()}
	for _, bound := range []struct {
		name string
		time time.Time
		to   *int64
	}{{"start", r.Start, &c.start}, {"end", r.End, &c.end}} {
		if bound.time.IsZero() {
			continue
		}
		if err := checkTime(bound.name, bound.time); err != nil {
			return nil, err
		}
		*bound.to = bound.time.UnixNano()
	}
	if c.end < c.start {
		return nil, fmt.Errorf("end is %s, before start, which is %s", r.End.Format(time.RFC3339), r.Start.Format(time.RFC3339))
	}
	if len(r.Spec) > MaxSpec {
		return nil, fmt.Errorf("spec has %d bytes: allowed are %d", len(r.Spec), MaxSpec)
	}
	spec := strings.TrimSpace(r.Spec)
	word, argument, _ := strings.Cut(spec, " ")
	argument = strings.TrimSpace(argument)
	if (word == "@at" || word == "@every") && r.Zone != "" && r.Zone != "UTC" {
		return nil, fmt.Errorf("zone is %.100q: it is for specs with fields, and %s has none", r.Zone, word)
	}
	switch {
	case word == "@at":
		at, err := time.Parse(time.RFC3339, argument)
		if err != nil {
			return nil, fmt.Errorf("spec %q: expected a time behind @at, such as @at 2027-01-31T09:00:00Z", spec)
		}
		if err := checkTime("spec", at); err != nil {
			return nil, err
		}
		c.at = at.UnixNano()
		return c, nil
	case word == "@every":
		every, err := time.ParseDuration(argument)
		if err != nil {
			return nil, fmt.Errorf("spec %q: expected a duration behind @every, such as @every 90s", spec)
		}
		if every < MinEvery || every > MaxEvery {
			return nil, fmt.Errorf("spec %q: allowed are %s to %s", spec, MinEvery, MaxEvery)
		}
		if c.every = every; r.Start.IsZero() {
			c.start = r.Created.UnixNano() + int64(every)
		}
		return c, nil
	case strings.HasPrefix(word, "@"):
		fields := names[spec]
		if fields == "" {
			return nil, fmt.Errorf("spec %q: expected @at, @every, @yearly, @monthly, @weekly, @daily or @hourly", spec)
		}
		spec = fields
	}
	zone, err := Zone(r.Zone)
	if err != nil {
		return nil, err
	}
	c.cron, err = parseCron(spec, zone)
	return c, err
}

func checkTime(what string, t time.Time) error {
	if t.Before(earliest) || t.After(latest) {
		return fmt.Errorf("%s is %s: allowed are the years %d to %d", what, t.Format(time.RFC3339), earliest.Year(), latest.Year())
	}
	return nil
}

// Next returns the first time after an instant. ok is false if there is none, or none within Horizon.
func (c *Calendar) Next(after time.Time) (next time.Time, ok bool) {
	// The first and the last instant that count.
	from := max(after.UnixNano()+1, c.start)
	to := min(c.end, from+int64(Horizon))
	if from > to {
		return time.Time{}, false
	}
	var t int64
	switch {
	case c.cron != nil:
		seconds, found := c.cron.next(ceilSecond(from), floorSecond(to))
		t, ok = seconds*int64(time.Second), found
	case c.every > 0:
		every := int64(c.every)
		t = c.start + (from-c.start+every-1)/every*every
		ok = t <= to
	default:
		t, ok = c.at, c.at >= from && c.at <= c.end // however far away
	}
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(0, t).UTC(), true
}

// Last returns the last time before an instant, as Next does in the other direction.
func (c *Calendar) Last(before time.Time) (last time.Time, ok bool) {
	to := min(before.UnixNano()-1, c.end)
	from := max(c.start, to-int64(Horizon))
	if from > to {
		return time.Time{}, false
	}
	var t int64
	switch {
	case c.cron != nil:
		seconds, found := c.cron.last(ceilSecond(from), floorSecond(to))
		t, ok = seconds*int64(time.Second), found
	case c.every > 0:
		every := int64(c.every)
		t, ok = c.start+(to-c.start)/every*every, true
	default:
		t, ok = c.at, c.at <= to && c.at >= c.start
	}
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(0, t).UTC(), true
}

// Preview returns the first n times after an instant, fewer if there are no more.
func (c *Calendar) Preview(after time.Time, n int) []time.Time {
	times := make([]time.Time, 0, n)
	for len(times) < n {
		next, ok := c.Next(after)
		if !ok {
			break
		}
		times, after = append(times, next), next
	}
	return times
}

// Count counts the times from one instant to another, both included, up to a number.
func (c *Calendar) Count(from, to time.Time, most int) (n int) {
	if c.every > 0 {
		first, last := max(from.UnixNano(), c.start), min(to.UnixNano(), c.end)
		if first > last {
			return 0
		}
		every := int64(c.every)
		before := (first - c.start + every - 1) / every
		return int(min((last-c.start)/every-before+1, int64(most)))
	}
	for after := from.Add(-1); n < most; n++ {
		next, ok := c.Next(after)
		if !ok || next.After(to) {
			break
		}
		after = next
	}
	return n
}

func floorSecond(t int64) int64 { return floorDiv(t, int64(time.Second)) }

func ceilSecond(t int64) int64 { return -floorDiv(-t, int64(time.Second)) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// archive is the tz database, one file a zone, as the distribution of Go has it in lib/time. Package time would
// prefer the zones of the machine and of $ZONEINFO to embedded zones: two bridges could then disagree about
// a time, and neither could name the version of its data.
//
//go:embed zoneinfo.zip
var archive string

// ZoneData is the version of the tz database. Versions compare as strings.
const ZoneData = "2025c"

var zones struct {
	sync.Mutex
	files  map[string]*zip.File
	loaded map[string]*time.Location
}

// Zone returns the zone with an IANA name, from the data of this program. "" is UTC.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	zones.Lock()
	defer zones.Unlock()
	if zone := zones.loaded[name]; zone != nil {
		return zone, nil
	}
	if zones.files == nil {
		r, err := zip.NewReader(strings.NewReader(archive), int64(len(archive)))
		if err != nil {
			return nil, fmt.Errorf("zones of this program: %w", err)
		}
		zones.files, zones.loaded = make(map[string]*zip.File), make(map[string]*time.Location)
		for _, file := range r.File {
			if !strings.HasSuffix(file.Name, "/") {
				zones.files[file.Name] = file
			}
		}
	}
	file := zones.files[name]
	if file == nil {
		return nil, fmt.Errorf("zone %.100q: expected the name of a zone of the tz database, such as Europe/Berlin", name)
	}
	data, err := content(file)
	if err != nil {
		return nil, fmt.Errorf("zone %q of this program: %w", name, err)
	}
	zone, err := time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, fmt.Errorf("zone %q of this program: %w", name, err)
	}
	zones.loaded[name] = zone
	return zone, nil
}

func content(file *zip.File) ([]byte, error) {
	r, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
