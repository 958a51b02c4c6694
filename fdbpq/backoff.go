package fdbpq

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
)

// A queue with a backoff keeps an item away for a while when its lease ends by a failure or an
// interruption, the longer the more there were of that kind. How long is a function of the item and
// of that number alone: every process comes to the same result, and a leased item can say what it will be.

// Backoff is the setting, as JSON: an object with delay, factor, max and jitter, or a list of delays. "" keeps no
// item away.
type Backoff string

const (
	// MaxBackoffSteps bounds the delays of a list.
	MaxBackoffSteps = 32

	maxBackoffText = 4 << 10 // bytes of a setting, as it is written

	minBackoff    = time.Millisecond
	maxFactor     = 10
	defaultFactor = 2
	defaultMax    = 10 * time.Minute
	defaultJitter = 0.1
)

// backoff is a setting that was read.
type backoff struct {
	delay, max     time.Duration
	factor, jitter float64
	steps          []time.Duration // by number, the last step for all later numbers; without steps, delay grows
}

// backoffObject is the form of a setting by which a delay grows.
type backoffObject struct {
	Delay  *Duration `json:"delay"`
	Factor *float64  `json:"factor"`
	Max    *Duration `json:"max"`
	Jitter *float64  `json:"jitter"`
}

// MarshalJSON implements json.Marshaler.
func (b Backoff) MarshalJSON() ([]byte, error) {
	if b == "" {
		return []byte(`""`), nil
	}
	return []byte(b), nil
}

// UnmarshalJSON implements json.Unmarshaler. It checks the setting, and fills in its defaults.
func (b *Backoff) UnmarshalJSON(text []byte) error {
	if string(text) == `""` {
		*b = ""
		return nil
	}
	if n := len(text); n > maxBackoffText {
		return fmt.Errorf("it has %d bytes: allowed are %d", n, maxBackoffText)
	}
	parsed, err := Backoff(text).parse()
	if err != nil {
		return err
	}
	*b, err = parsed.setting()
	return err
}

// parse reads the setting: nil for "".
func (b Backoff) parse() (*backoff, error) {
	text := []byte(b)
	switch {
	case b == "":
		return nil, nil
	case text[0] == '[':
		return parseSteps(text)
	case text[0] == '{':
		return parseGrowth(text)
	}
	return nil, fmt.Errorf(`expected "", an object such as {"delay":"1s"}, or a list such as ["1s","10s"]`)
}

func parseSteps(text []byte) (*backoff, error) {
	var steps []Duration
	if err := json.Unmarshal(text, &steps); err != nil {
		return nil, errors.New(`expected a list of durations such as ["1s","10s"]`)
	}
	if n := len(steps); n == 0 || n > MaxBackoffSteps {
		return nil, fmt.Errorf("there are %d delays: expected 1 to %d", n, MaxBackoffSteps)
	}
	parsed := new(backoff)
	for _, step := range steps {
		if err := checkBackoffDelay("a delay", step); err != nil {
			return nil, err
		}
		parsed.steps = append(parsed.steps, time.Duration(step))
	}
	return parsed, nil
}

var backoffFields = []string{"delay", "factor", "max", "jitter"}

func parseGrowth(text []byte) (*backoff, error) {
	if err := jsonfields.Check(text, backoffFields, false); err != nil {
		return nil, unnamed(err)
	}
	var object backoffObject
	if err := jsonfields.Decode(text, &object); err != nil {
		return nil, unnamed(err)
	}
	if object.Delay == nil {
		return nil, errors.New(`delay is missing: expected it in an object such as {"delay":"1s"}`)
	}
	parsed := &backoff{delay: time.Duration(*object.Delay), factor: defaultFactor, jitter: defaultJitter}
	if err := checkBackoffDelay("delay", *object.Delay); err != nil {
		return nil, err
	}
	if parsed.max = max(defaultMax, parsed.delay); object.Max != nil {
		if err := checkBackoffDelay("max", *object.Max); err != nil {
			return nil, err
		}
		parsed.max = time.Duration(*object.Max)
	}
	if parsed.max < parsed.delay {
		return nil, fmt.Errorf("max is %s: expected no less than delay, %s", parsed.max, parsed.delay)
	}
	if object.Factor != nil {
		parsed.factor = *object.Factor
	}
	if parsed.factor < 1 || parsed.factor > maxFactor {
		return nil, fmt.Errorf("factor is %v: allowed are 1 to %d", parsed.factor, maxFactor)
	}
	if object.Jitter != nil {
		parsed.jitter = *object.Jitter
	}
	if parsed.jitter < 0 || parsed.jitter > 1 {
		return nil, fmt.Errorf("jitter is %v: allowed are 0 to 1", parsed.jitter)
	}
	return parsed, nil
}

// unnamed is an error about a field of the setting as text: the field of the configuration names the whole.
func unnamed(err error) error { return errors.New(err.Error()) }

func checkBackoffDelay(what string, d Duration) error {
	if time.Duration(d) < minBackoff || time.Duration(d) > MaxDelay {
		return fmt.Errorf("%s is %s: allowed are %s to %s", what, d, minBackoff, MaxDelay)
	}
	return nil
}

// setting is the setting with all of its fields.
func (b *backoff) setting() (Backoff, error) {
	var value any
	if b.steps != nil {
		steps := make([]Duration, len(b.steps))
		for i, step := range b.steps {
			steps[i] = Duration(step)
		}
		value = steps
	} else {
		delay, longest := Duration(b.delay), Duration(b.max)
		value = backoffObject{Delay: &delay, Factor: &b.factor, Max: &longest, Jitter: &b.jitter}
	}
	var text bytes.Buffer
	err := json.NewEncoder(&text).Encode(value)
	return Backoff(strings.TrimSpace(text.String())), err
}

// after is how long an item stays away after its n-th failure, or interruption.
func (b *backoff) after(id ID, n int64) time.Duration {
	if n = max(n, 1); b.steps != nil {
		return b.steps[min(n, int64(len(b.steps)))-1]
	}
	d := min(float64(b.max), float64(b.delay)*math.Pow(b.factor, float64(n-1)))
	if b.jitter > 0 {
		d *= 1 - b.jitter + 2*b.jitter*chance(id, n)
	}
	d = math.Round(d/float64(minBackoff)) * float64(minBackoff)
	return time.Duration(max(float64(minBackoff), min(d, float64(MaxDelay))))
}

// chance is a number from 0 up to 1, the same in all processes for an item's n-th time.
func chance(id ID, n int64) float64 { return inside.Fraction(fmt.Appendf(nil, "%s %d", id, n)) }
