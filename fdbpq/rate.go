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
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = parseRate(text, MaxRate)
	return err
}

// parseRate reads a rate of at most a number.
func parseRate(text []byte, most int64) (r Rate, err error) {
	if len(text) == 0 {
		return Rate{}, nil
	}
	n, period, ok := strings.Cut(string(text), "/")
	if r.N, err = strconv.ParseInt(n, 10, 64); err != nil || !ok || r.Period.UnmarshalText([]byte(period)) != nil {
		return Rate{}, fmt.Errorf("rate %q: expected a number and a duration, such as 100/1m", text)
	}
	if r.N < 1 || r.N > most {
		return Rate{}, fmt.Errorf("rate %q: the number is %d, allowed are 1 to %d", text, r.N, most)
	}
	if p := time.Duration(r.Period); p < MinRatePeriod || p > MaxRatePeriod {
		return Rate{}, fmt.Errorf("rate %q: the duration is %s, allowed are %s to %s", text, p, MinRatePeriod, MaxRatePeriod)
	}
	return r, nil
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

// CostRate bounds the cost of deliveries: within any time W they reserve at most N + N·W/Period, the cost of one item, and what
// came back in it. The zero CostRate bounds nothing. See [Config].
type CostRate Rate

// The bounds of costs.
const (
	MaxCost     = 1_000_000         // of an item, or of a delivery
	MaxCostRate = 1_000_000_000_000 // the number of a CostRate
)

// String returns the rate in the form that UnmarshalText reads.
func (r CostRate) String() string { return Rate(r).String() }

// MarshalText implements encoding.TextMarshaler.
func (r CostRate) MarshalText() ([]byte, error) { return Rate(r).MarshalText() }

// UnmarshalText implements encoding.TextUnmarshaler. "" is no rate.
func (r *CostRate) UnmarshalText(text []byte) error {
	parsed, err := parseRate(text, MaxCostRate)
	*r = CostRate(parsed)
	return err
}

// PerSecond is how much cost a second it allows in the long run, 0 for the zero CostRate.
func (r CostRate) PerSecond() float64 { return Rate(r).PerSecond() }
