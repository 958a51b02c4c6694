package calendar

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

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
