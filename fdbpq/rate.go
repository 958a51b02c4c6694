package fdbpq

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate bounds deliveries: within any time W there are at most N + N·W/Period. The zero
// Rate bounds nothing.
type Rate struct {
	N      int64
	Period Duration
}

// The bounds of a rate. An interval of less than a microsecond would be rounded by more
// than a thousandth.
const (
	MaxRate       = 1_000_000
	MinRatePeriod = time.Second
	MaxRatePeriod = 24 * time.Hour
)

// String returns the rate in the form that UnmarshalText reads, such as 100/1m0s, and ""
// for the zero Rate.
func (r Rate) String() string {
	if r == (Rate{}) {
		return ""
	}
	return fmt.Sprintf("%d/%s", r.N, r.Period)
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. "" is no rate.
func (r *Rate) UnmarshalText(text []byte) error {
	if *r = (Rate{}); len(text) == 0 {
		return nil
	}
	n, period, ok := strings.Cut(string(text), "/")
	var parsed Rate
	var err error
	if parsed.N, err = strconv.ParseInt(n, 10, 64); err != nil || !ok || parsed.Period.UnmarshalText([]byte(period)) != nil {
		return fmt.Errorf("rate %q: expected a number and a duration, such as 100/1m", text)
	}
	if parsed.N < 1 || parsed.N > MaxRate {
		return fmt.Errorf("rate %q: the number is %d, allowed are 1 to %d", text, parsed.N, MaxRate)
	}
	if p := time.Duration(parsed.Period); p < MinRatePeriod || p > MaxRatePeriod {
		return fmt.Errorf("rate %q: the duration is %s, allowed are %s to %s", text, p, MinRatePeriod, MaxRatePeriod)
	}
	*r = parsed
	return nil
}

// PerSecond is how many deliveries a second it allows in the long run, 0 for the zero Rate.
func (r Rate) PerSecond() float64 {
	if r == (Rate{}) {
		return 0
	}
	return float64(r.N) / time.Duration(r.Period).Seconds()
}

// interval is the time in which one token comes, rounded up.
func (r Rate) interval() int64 { return (int64(r.Period) + r.N - 1) / r.N }
