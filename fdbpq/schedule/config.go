package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
)

// Config is what an administrator sets of a schedule, but for the item.
type Config struct {
	Spec    string         `json:"spec"`
	Zone    string         `json:"zone"`            // of the fields of the spec
	Start   *time.Time     `json:"start,omitempty"` // the first and the last time that may fire; nil: no bound
	End     *time.Time     `json:"end,omitempty"`
	Count   int64          `json:"count"`    // how many times it fires in all; 0: no bound
	Overlap Overlap        `json:"overlap"`  // what it does while an earlier item of it lives
	CatchUp fdbpq.Duration `json:"catch_up"` // how late it may fire
	Missed  Missed         `json:"missed"`   // which of several times that are due fire
	Jitter  fdbpq.Duration `json:"jitter"`   // it fires later by a part of it
	Paused  bool           `json:"paused"`
}

// Overlap says what a schedule does while an earlier item of it lives.
type Overlap string

const (
	OverlapSkip    Overlap = "skip"    // nothing
	OverlapOne     Overlap = "one"     // it pushes unless one waits that was never leased
	OverlapReplace Overlap = "replace" // the item gets the new content, unless it is leased
	OverlapAllow   Overlap = "allow"   // it pushes
)

// Missed says which of several times that are due fire.
type Missed string

const (
	MissedOne Missed = "one" // the last
	MissedAll Missed = "all" // each
)

// Item is what a schedule pushes.
type Item struct {
	Headers, Payload []byte

	Priority    int64
	HasPriority bool
	Key         string
	Weight      int64
	Cost        int64
	TTL         time.Duration
}

// The bounds of schedules.
const (
	MaxName    = named.MaxName
	MaxItem    = 64 << 10  // bytes of headers and payload
	MaxCount   = 100_000   // of a queue
	MaxBytes   = 256 << 20 // of the items of a queue's schedules
	MaxDense   = 100       // of a queue, with less than a minute between two of their next ten times
	MaxJitter  = time.Hour //
	MinCatchUp = 10 * time.Second
	MaxCatchUp = 8760 * time.Hour
	MaxPage    = 100

	denseTimes = 10
	denseGap   = time.Minute

	// doneKept is how long a schedule without a further time is kept.
	doneKept = 24 * time.Hour
)

var (
	// ErrNone: the queue has no schedule of this name.
	ErrNone = errors.New("no such schedule")
	// ErrTooMany: the queue has as many schedules as it may have.
	ErrTooMany = errors.New("too many schedules")
)

var fieldNames = []string{"spec", "zone", "item", "start", "end", "count", "overlap", "catch_up", "missed", "jitter", "paused"}

func defaultConfig() Config {
	return Config{Zone: "UTC", Overlap: OverlapSkip, CatchUp: fdbpq.Duration(time.Hour), Missed: MissedOne}
}

// merge returns the definition with the fields of the JSON object replaced, but for the item.
// null drops a bound.
func (c Config) merge(object []byte) (Config, error) {
	if err := jsonfields.Check(object, fieldNames, true); err != nil {
		return c, wrong(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return c, wrong(err)
	}
	for name, value := range fields {
		if string(value) == "null" && name != "start" && name != "end" {
			return c, wrong(jsonfields.Null(name))
		}
	}
	// A value behind a pointer would be decoded in its place, where the schedule as it was has it, too.
	for name, bound := range map[string]**time.Time{"start": &c.Start, "end": &c.End} {
		if _, given := fields[name]; given {
			*bound = nil
		}
	}
	if err := jsonfields.Decode(object, &c); err != nil {
		return c, wrong(err)
	}
	return c, wrong(c.check())
}

// Error says what is wrong with a schedule.
type Error struct{ Text string }

func (e *Error) Error() string { return "schedule: " + e.Text }

// wrong has an error about the fields of an object say that they are of a schedule.
func wrong(err error) error {
	if err == nil {
		return nil
	}
	return &Error{err.Error()}
}

func (c *Config) check() error {
	switch {
	case c.Count < 0:
		return jsonfields.Errorf("count is %d: it cannot be negative", c.Count)
	case !slices.Contains([]Overlap{OverlapSkip, OverlapOne, OverlapReplace, OverlapAllow}, c.Overlap):
		return jsonfields.Errorf("overlap is %q: expected skip, one, replace or allow", c.Overlap)
	case c.Missed != MissedOne && c.Missed != MissedAll:
		return jsonfields.Errorf("missed is %q: expected one or all", c.Missed)
	case c.CatchUp < fdbpq.Duration(MinCatchUp) || c.CatchUp > fdbpq.Duration(MaxCatchUp):
		return jsonfields.Errorf("catch_up is %s: allowed are %s to %s", c.CatchUp, MinCatchUp, MaxCatchUp)
	case c.Jitter < 0 || c.Jitter > fdbpq.Duration(MaxJitter):
		return jsonfields.Errorf("jitter is %s: allowed are 0s to %s", c.Jitter, MaxJitter)
	}
	for i, bound := range []*time.Time{c.Start, c.End} {
		if bound != nil && bound.IsZero() { // which is no bound to a calendar
			return jsonfields.Errorf("%s is in the year 1: allowed are the years 1970 to 2199", []string{"start", "end"}[i])
		}
	}
	return nil
}

// check returns an error when the item is not one that could be pushed.
func (i *Item) check() error {
	if size := len(i.Headers) + len(i.Payload); size > MaxItem {
		return wrong(fmt.Errorf("item: payload and headers have %d bytes, allowed are %d", size, MaxItem))
	}
	if i.TTL < 0 || i.TTL > fdbpq.MaxDelay {
		return wrong(fmt.Errorf("item: ttl is %s, allowed are up to %s", i.TTL, fdbpq.MaxDelay))
	}
	if err := fdbpq.CheckKey(i.Key); err != nil {
		return err
	}
	return fdbpq.CheckWeight(i.Key, i.Weight)
}

func (i *Item) size() int64 { return int64(len(i.Headers) + len(i.Payload)) }

// CheckName returns an error when a schedule may not have the name.
func CheckName(name string) error { return wrong(named.CheckName(name)) }

// timesDiffer reports whether another definition has other times.
func (c *Config) timesDiffer(before *Config) bool {
	same := func(a, b *time.Time) bool { return a == b || a != nil && b != nil && a.Equal(*b) }
	return c.Spec != before.Spec || c.Zone != before.Zone || !same(c.Start, before.Start)
}
