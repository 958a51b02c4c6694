package calendar

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// cron is a spec of fields. Each field is a set of bits.
//
// Local times are counted in seconds, as if each day had 86,400 of them: a local time is
// the Unix time at which a clock in UTC would show it.
type cron struct {
	zone                    *time.Location
	seconds, minutes, hours uint64
	days, months, weekdays  uint64
	anyDay, anyWeekday      bool // all values: the other field of days decides alone
	wild                    bool // a time is every instant whose local time matches
}

// plainShift is the longest shift of clocks. A longer shift of local time is one of the calendar: it skips or
// repeats whole days, and schedules do not make up for them.
const plainShift = 3 * 60 * 60

const day = 24 * 60 * 60

// span is a time in which a zone has one offset.
type span struct {
	begin, end int64 // Unix seconds, the end excluded
	offset     int64
	shift      int64 // by how much local time jumps at the begin; 0: no jump, or a jump that does not count
}

func (c *cron) span(at int64) span {
	t := time.Unix(at, 0).In(c.zone)
	_, offset := t.Zone()
	s := span{begin: math.MinInt64 / 4, end: math.MaxInt64 / 4, offset: int64(offset)}
	begin, end := t.ZoneBounds()
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= at {
		// Behind the last change that the data lists, package time ends spans with the year of UTC, and assumes
		// that it has 365 days. No rule changes clocks on the last day of a year.
		s.end = time.Date(t.UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	if !begin.IsZero() {
		s.begin = begin.Unix()
		_, before := begin.Add(-1).Zone()
		if s.shift = s.offset - int64(before); s.shift > plainShift || s.shift < -plainShift {
			s.shift = 0
		}
	}
	return s
}

// first is the first local time of a span that may fire. After the clocks were put back, local times that a fixed
// spec has seen already do not fire again.
func (c *cron) first(s span) int64 {
	if !c.wild && s.shift < 0 {
		return s.begin + s.offset - s.shift
	}
	return s.begin + s.offset
}

// skipped reports whether the clocks, when the span began, were put forward over a local time that matches. A fixed
// spec fires such a time at once.
func (c *cron) skipped(s span) bool {
	if c.wild || s.shift <= 0 {
		return false
	}
	_, matches := c.nextLocal(s.begin+s.offset-s.shift, s.begin+s.offset-1)
	return matches
}

// next returns the first time from one second to another, both included.
func (c *cron) next(from, to int64) (int64, bool) {
	for from <= to {
		s := c.span(from)
		if from == s.begin && c.skipped(s) {
			return from, true
		}
		local, ok := c.nextLocal(max(from+s.offset, c.first(s)), min(s.end-1, to)+s.offset)
		if ok {
			return local - s.offset, true
		}
		from = s.end
	}
	return 0, false
}

// last returns the last time from one second to another, both included.
func (c *cron) last(from, to int64) (int64, bool) {
	for from <= to {
		s := c.span(to)
		local, ok := c.lastLocal(max(from+s.offset, c.first(s)), to+s.offset)
		if ok {
			return local - s.offset, true
		}
		if s.begin >= from && c.skipped(s) {
			return s.begin, true
		}
		to = s.begin - 1
	}
	return 0, false
}

// nextLocal returns the first local time from one second to another, both included.
func (c *cron) nextLocal(from, to int64) (int64, bool) {
	for from <= to {
		d := floorDiv(from, day)
		if c.matchesDay(d) {
			if second, ok := c.nextSecond(int(from - d*day)); ok {
				return d*day + second, d*day+second <= to
			}
		}
		from = (d + 1) * day
	}
	return 0, false
}

// lastLocal returns the last local time from one second to another, both included.
func (c *cron) lastLocal(from, to int64) (int64, bool) {
	for from <= to {
		d := floorDiv(to, day)
		if c.matchesDay(d) {
			if second, ok := c.lastSecond(int(to - d*day)); ok {
				return d*day + second, d*day+second >= from
			}
		}
		to = d*day - 1
	}
	return 0, false
}

// matchesDay reports whether the spec has a day, counted from 1970 on. If days of the month and days of the week
// are both restricted, either is enough.
func (c *cron) matchesDay(d int64) bool {
	t := time.Unix(d*day, 0).UTC()
	_, month, dayOfMonth := t.Date()
	if c.months&(1<<month) == 0 {
		return false
	}
	ofMonth, ofWeek := c.days&(1<<dayOfMonth) != 0, c.weekdays&(1<<t.Weekday()) != 0
	if c.anyDay || c.anyWeekday {
		return ofMonth && ofWeek
	}
	return ofMonth || ofWeek
}

// nextSecond returns the first second of a day from one on.
func (c *cron) nextSecond(from int) (int64, bool) {
	h, m, s := from/3600, from/60%60, from%60
	if c.hours&(1<<h) != 0 {
		if c.minutes&(1<<m) != 0 {
			if found := firstFrom(c.seconds, s); found >= 0 {
				return secondOf(h, m, found), true
			}
		}
		if found := firstFrom(c.minutes, m+1); found >= 0 {
			return secondOf(h, found, firstFrom(c.seconds, 0)), true
		}
	}
	if found := firstFrom(c.hours, h+1); found >= 0 {
		return secondOf(found, firstFrom(c.minutes, 0), firstFrom(c.seconds, 0)), true
	}
	return 0, false
}

// lastSecond returns the last second of a day up to one.
func (c *cron) lastSecond(to int) (int64, bool) {
	h, m, s := to/3600, to/60%60, to%60
	if c.hours&(1<<h) != 0 {
		if c.minutes&(1<<m) != 0 {
			if found := lastUpTo(c.seconds, s); found >= 0 {
				return secondOf(h, m, found), true
			}
		}
		if found := lastUpTo(c.minutes, m-1); found >= 0 {
			return secondOf(h, found, lastUpTo(c.seconds, 59)), true
		}
	}
	if found := lastUpTo(c.hours, h-1); found >= 0 {
		return secondOf(found, lastUpTo(c.minutes, 59), lastUpTo(c.seconds, 59)), true
	}
	return 0, false
}

func secondOf(h, m, s int) int64 { return int64(h)*3600 + int64(m)*60 + int64(s) }

// firstFrom returns the first member of a set that is not below v, -1 if there is none.
func firstFrom(set uint64, v int) int {
	if rest := set >> v << v; rest != 0 {
		return bits.TrailingZeros64(rest)
	}
	return -1
}

// lastUpTo returns the last member of a set that is not above v, -1 if there is none.
func lastUpTo(set uint64, v int) int {
	return 63 - bits.LeadingZeros64(set&(1<<(v+1)-1))
}

// field is one of the fields of a spec. A value beyond last and up to most is another name of
// first: day 7 of the week is Sunday.
type field struct {
	name              string
	first, last, most int
	names             []string // of the values from first on
}

var (
	seconds     = field{name: "seconds", last: 59, most: 59}
	minutes     = field{name: "minutes", last: 59, most: 59}
	hours       = field{name: "hours", last: 23, most: 23}
	daysOfMonth = field{name: "days of the month", first: 1, last: 31, most: 31}
	months      = field{name: "months", first: 1, last: 12, most: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}}
	daysOfWeek  = field{name: "days of the week", last: 6, most: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}}
)

// parseCron reads six fields, or five without the seconds.
func parseCron(spec string, zone *time.Location) (*cron, error) {
	texts := strings.Fields(spec)
	if len(texts) > 0 {
		for _, word := range []string{"TZ=", "CRON_TZ="} {
			if name, is := strings.CutPrefix(texts[0], word); is {
				return nil, fmt.Errorf("spec %q begins with a zone: expected the fields alone, and the zone %.100q in zone", spec, name)
			}
		}
	}
	if len(texts) == 5 {
		texts = append([]string{"0"}, texts...)
	}
	if len(texts) != 6 {
		return nil, fmt.Errorf("spec %q has %d fields: expected five (minutes, hours, days of the month, months, days of the week), six (seconds first), or @ and a word", spec, len(texts))
	}
	c := &cron{zone: zone, wild: isWild(texts[1]) || isWild(texts[2])}
	for i, to := range []struct {
		field
		values *uint64
		all    *bool
	}{
		{seconds, &c.seconds, nil}, {minutes, &c.minutes, nil}, {hours, &c.hours, nil},
		{daysOfMonth, &c.days, &c.anyDay}, {months, &c.months, nil}, {daysOfWeek, &c.weekdays, &c.anyWeekday},
	} {
		values, all, err := to.parse(texts[i])
		if err != nil {
			return nil, fmt.Errorf("spec %q: %w", spec, err)
		}
		*to.values = values
		if to.all != nil {
			*to.all = all
		}
	}
	return c, nil
}

// isWild reports whether a field begins with all values. ? is another word for *.
func isWild(field string) bool { return field[0] == '*' || field[0] == '?' }

// parse returns the values of a list, and whether one of its members stands for all values.
func (f field) parse(list string) (values uint64, all bool, err error) {
	for member := range strings.SplitSeq(list, ",") {
		low, high, step, err := f.member(member)
		if err != nil {
			return 0, false, err
		}
		all = all || (low == f.first && high == f.last && step == 1 && isWild(member))
		for v := low; v <= high; v += step {
			if v > f.last {
				values |= 1 << (f.first + v - f.last - 1)
			} else {
				values |= 1 << v
			}
		}
	}
	return values, all, nil
}

// member reads *, ?, n, n-m, and each of them with /step.
func (f field) member(text string) (low, high, step int, err error) {
	span, stepText, stepped := strings.Cut(text, "/")
	step = 1
	if stepped {
		if step, err = number(stepText); err != nil || step < 1 || step > f.last {
			return 0, 0, 0, fmt.Errorf("%s %q: expected a step of 1 to %d behind /", f.name, text, f.last)
		}
	}
	if span == "*" || span == "?" {
		return f.first, f.last, step, nil
	}
	lowText, highText, ranged := strings.Cut(span, "-")
	if low, err = f.value(lowText, text); err != nil {
		return 0, 0, 0, err
	}
	switch {
	case ranged:
		if high, err = f.value(highText, text); err != nil {
			return 0, 0, 0, err
		}
		if high < low {
			return 0, 0, 0, fmt.Errorf("%s %q: the range ends before it begins; expected two ranges, separated by a comma", f.name, text)
		}
	case stepped:
		high = max(low, f.last)
	default:
		high = low
	}
	return low, high, step, nil
}

// value reads a number or a name.
func (f field) value(text, member string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.first + i, nil
		}
	}
	v, err := number(text)
	if err != nil || v < f.first || v > f.most {
		expected := fmt.Sprintf("%d to %d", f.first, f.most)
		if f.names != nil {
			expected += fmt.Sprintf(", or %s to %s", f.names[0], f.names[len(f.names)-1])
		}
		return 0, fmt.Errorf("%s %q: expected %s, ranges such as %d-%d, steps such as */2, or a list of these", f.name, member, expected, f.first, f.last)
	}
	return v, nil
}

// number reads one or two digits.
func number(text string) (int, error) {
	if len(text) < 1 || len(text) > 2 || strings.Trim(text, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}
