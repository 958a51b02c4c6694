package fdbpq

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/jsontext"
)

// Config is what the owner of a queue can set. It is stored with the queue.
type Config struct {
	Priority          int64    `json:"priority"`            // of items pushed without one
	Lease             Duration `json:"lease"`               // of pops that ask for none; 0: pops remove items at once
	TTL               Duration `json:"ttl"`                 // of items pushed without one; 0: for ever
	MaxDeliveries     int64    `json:"max_deliveries"`      // leases of an item before it goes to the dead-letter queue; 0: no limit
	DeadLetter        string   `json:"dead_letter"`         // dead-letter queue; "": <queue>-dead
	DeadLetterExpired bool     `json:"dead_letter_expired"` // items past their TTL go there instead of being dropped
	DeadLettersFrom   string   `json:"dead_letters_from"`   // queues whose dead letters this one accepts, separated by commas; "*": all
	DedupWindow       Duration `json:"dedup_window"`        // how long message ids are remembered
	DedupLimit        int64    `json:"dedup_limit"`         // ids remembered at a time
	Ties              Ties     `json:"ties"`                // what pop.max takes among equal priorities
	MaxLength         int64    `json:"max_length"`          // ready, leased and delayed items; 0: no limit
	MaxBytes          int64    `json:"max_bytes"`           // of their payloads and headers, and ItemBytes for each; 0: no limit but that of Options
	Overflow          Overflow `json:"overflow"`            // what a push to a full queue does
	KeyLimit          int64    `json:"key_limit"`           // items of one key that are leased at a time; 0: no limit
	KeyOrder          bool     `json:"key_order"`           // items of a key are handed out one after another
	Fair              Fair     `json:"fair"`                // keys take turns within a class: "priority", or the classes' borders
	Rate              Rate     `json:"rate"`                // deliveries of the queue
	KeyRate           Rate     `json:"key_rate"`            // deliveries of one key
	HandOver          string   `json:"hand_over"`           // queues to which pushes may hand over leased items of this one, separated by commas; "*": all
	Backoff           Backoff  `json:"backoff"`             // how long items stay away that come back from a lease
	Attempts          int64    `json:"attempts"`            // last ones that items remember; 0: none
	Strict            bool     `json:"strict"`              // a pop depends on what is in front of the items that it takes
}

// Ties says which of several items with the highest priority pop.max takes.
type Ties string

const (
	TiesNewest Ties = "newest"
	TiesOldest Ties = "oldest"
)

// Overflow says what a push to a full queue does.
type Overflow string

const (
	OverflowRefuse Overflow = "refuse"
	OverflowEvict  Overflow = "evict"
)

// The defaults of a queue without a configuration, and the bounds of settings.
const (
	DefaultMaxDeliveries = 16
	DefaultDedupWindow   = 2 * time.Minute
	DefaultDedupLimit    = 1_000_000

	MaxDedupWindow = 24 * time.Hour            // every id occupies a row for this long
	MaxLease       = 12 * time.Hour            // the items of a crashed worker stay leased for this long
	MaxDedupLimit  = 10_000_000                // every id occupies two rows
	MaxKeyLimit    = 1000                      // a pop reads this many rows of a key
	MaxDelay       = 10 * 365 * 24 * time.Hour // keeps due times far from overflow

	maxName  = 256  // bytes of a dead-letter queue's name, so that it fits a key
	maxNames = 4096 // bytes of a list of queues: every transaction on the queue reads it
)

func defaultConfig() Config {
	return Config{
		MaxDeliveries: DefaultMaxDeliveries,
		DedupWindow:   Duration(DefaultDedupWindow),
		DedupLimit:    DefaultDedupLimit,
		Ties:          TiesNewest,
		Overflow:      OverflowRefuse,
		Attempts:      MaxAttempts,
	}
}

// limitsKeys reports whether the items of a key may have to wait for each other.
func (c *Config) limitsKeys() bool { return c.KeyLimit > 0 || c.KeyOrder }

// listed reports whether a list of queues, separated by commas, names a queue. "*" names
// all.
func listed(names, queue string) bool {
	return names == "*" || slices.Contains(strings.Split(names, ","), queue)
}

// DeadLetterSuffix ends the name of a queue's default dead-letter queue.
const DeadLetterSuffix = "-dead"

// MaxDeadLetterName bounds the bytes of that name. An item that went to a queue with a
// longer one could not be reached.
const MaxDeadLetterName = 69

// Merge returns the configuration with the fields of the JSON object replaced.
// Unknown fields and values out of bounds are errors that say what is allowed.
func (c Config) Merge(object []byte) (Config, error) {
	if err := checkObject(object, configFields, false); err != nil {
		return Config{}, err
	}
	if err := decode(object, &c); err != nil {
		return Config{}, err
	}
	return c, c.check()
}

// decode reads the fields of an object that [checkObject] has checked. Its errors name the
// field, which those of encoding/json do not.
func decode[T any](object []byte, to *T) error {
	err := json.Unmarshal(object, to)
	if err == nil {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return &ConfigError{err.Error()}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		one := fmt.Appendf(nil, "{%q:%s}", name, fields[name])
		err := json.Unmarshal(one, new(T))
		if err == nil {
			continue
		}
		kind := kindOf[T](name)
		if own := (*ConfigError)(nil); errors.As(err, &own) {
			return own // it names the field
		}
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			return configError("%s is %.100s: expected %s", name, fields[name], jsontext.Kind(kind))
		}
		if kind == reflect.TypeFor[*time.Time]() {
			return configError("%s is %.100s: expected a time such as 2030-01-02T15:04:05Z", name, fields[name])
		}
		return configError("%s: %w", name, err)
	}
	return &ConfigError{err.Error()} // each field can be read
}

// kindOf is the type that a field of a type has, by its name in JSON; nil: there is no such field.
func kindOf[T any](name string) reflect.Type {
	for field := range reflect.TypeFor[T]().Fields() {
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag == name {
			return field.Type
		}
	}
	return nil
}

// checkObject refuses what encoding/json accepts: names in another case, repeated names,
// and null, unless that is allowed.
func checkObject(object []byte, names []string, nulls bool) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return configError("expected a JSON object with some of %s", strings.Join(names, ", "))
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return configError("%w", jsontext.Broken(err))
		}
		name := token.(string) // the decoder returns strings for names
		switch {
		case !slices.Contains(names, name) && slices.Contains(names, nameHere[name]):
			return configError("unknown field %q: here it is %s", name, nameHere[name])
		case !slices.Contains(names, name):
			return configError("unknown field %.100q: expected some of %s", name, strings.Join(names, ", "))
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return configError("%w", jsontext.Broken(err))
		}
		if string(value) == "null" && !nulls {
			return configError("%s is null: leave it out to keep it as it is", name)
		}
	}
	if _, err := d.Token(); err != nil {
		return configError("%w", jsontext.Broken(err))
	}
	if _, err := d.Token(); err != io.EOF {
		return configError("there is more behind the JSON object")
	}
	if err := jsontext.Check(object); err != nil { // of as many fields as there are
		return configError("%w", err)
	}
	return nil
}

// configFields are the names of the fields in JSON.
var configFields = func() (names []string) {
	for field := range reflect.TypeFor[Config]().Fields() {
		names = append(names, field.Tag.Get("json"))
	}
	return names
}()

// ConfigError says what is wrong with a configuration.
type ConfigError struct {
	Text string
}

func configError(format string, args ...any) error {
	return &ConfigError{fmt.Errorf(format, args...).Error()}
}

func (e *ConfigError) Error() string { return "configuration: " + e.Text }

func (c Config) check() error {
	within := func(field string, value, most Duration) error {
		if value < 0 || value > most {
			return configError("%s is %s: allowed are 0s to %s", field, value, most)
		}
		return nil
	}
	for _, err := range []error{
		within("lease", c.Lease, Duration(MaxLease)),
		within("ttl", c.TTL, Duration(MaxDelay)),
		within("dedup_window", c.DedupWindow, Duration(MaxDedupWindow)),
	} {
		if err != nil {
			return err
		}
	}
	if n := len(c.DeadLetter); n > maxName {
		return configError("dead_letter has %d bytes: allowed are %d", n, maxName)
	}
	for _, list := range []struct{ field, names string }{{"dead_letters_from", c.DeadLettersFrom}, {"hand_over", c.HandOver}} {
		if n := len(list.names); n > maxNames {
			return configError("%s has %d bytes: allowed are %d", list.field, n, maxNames)
		}
		if list.names != "" && slices.Contains(strings.Split(list.names, ","), "") {
			return configError("%s is %q: expected names of queues separated by commas, or *", list.field, list.names)
		}
	}
	for _, n := range []struct {
		field string
		value int64
	}{{"max_deliveries", c.MaxDeliveries}, {"dedup_limit", c.DedupLimit}, {"max_length", c.MaxLength}, {"max_bytes", c.MaxBytes}, {"key_limit", c.KeyLimit}} {
		if n.value < 0 {
			return configError("%s is %d: it cannot be negative", n.field, n.value)
		}
	}
	if c.DedupLimit > MaxDedupLimit {
		return configError("dedup_limit is %d: allowed are 0 to %d", c.DedupLimit, MaxDedupLimit)
	}
	if c.KeyLimit > MaxKeyLimit {
		return configError("key_limit is %d: allowed are 0, for no limit, to %d", c.KeyLimit, MaxKeyLimit)
	}
	if c.Attempts < 0 || c.Attempts > MaxAttempts {
		return configError("attempts is %d: allowed are 0, for none, to %d", c.Attempts, MaxAttempts)
	}
	if err := c.Fair.check(); err != nil {
		return err
	}
	if c.Ties != TiesNewest && c.Ties != TiesOldest {
		return configError("ties is %q: allowed are %q and %q", c.Ties, TiesNewest, TiesOldest)
	}
	if c.Overflow != OverflowRefuse && c.Overflow != OverflowEvict {
		return configError("overflow is %q: allowed are %q and %q", c.Overflow, OverflowRefuse, OverflowEvict)
	}
	return nil
}

// Duration is a time.Duration that JSON shows as "1m30s".
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("duration %q: expected a form like 30s or 1h30m", b)
	}
	*d = Duration(v)
	return nil
}

// Config returns the queue's configuration, or the defaults when there is no such
// queue.
func (q Queue) Config(r kv.Reader) (Config, error) {
	s, err := q.readState(r)
	if err != nil || s == nil {
		return defaultConfig(), err
	}
	return s.config, nil
}

// Configure changes the fields of the queue's configuration that the JSON
// object names, and makes the queue if need be.
func (q Queue) Configure(tx kv.Tx, object []byte) (Config, error) {
	qtx, err := q.administer(tx)
	if err == nil {
		err = qtx.orNew()
	}
	if err != nil {
		return Config{}, err
	}
	s := qtx.state
	changed := *s
	if changed.config, err = s.config.Merge(object); err != nil {
		return Config{}, err
	}
	for _, part := range configParts {
		if part.prepare == nil {
			continue
		}
		if err := part.prepare(qtx, &changed); err != nil {
			return Config{}, err
		}
	}
	if qtx.missing {
		if err := qtx.create(&changed); err != nil {
			return Config{}, err
		}
		return changed.config, deadLetters{qtx}.create()
	}
	if err := qtx.writeState(&changed); err != nil {
		return Config{}, err
	}
	for _, part := range configParts {
		if part.changed == nil {
			continue
		}
		if err := part.changed(qtx, &s.config); err != nil {
			return Config{}, err
		}
	}
	return changed.config, qtx.done()
}

// configParts are what features do when a queue gets another configuration.
var configParts = [...]struct {
	// prepare refuses the configuration of the next state, or changes the rest of that.
	prepare func(qtx *queueTx, next *queueState) error

	// changed has pops look again at what the configuration may let go. A queue that is made
	// has nothing to look at.
	changed func(qtx *queueTx, before *Config) error
}{
	{prepare: prepareBackoff},
	{prepare: prepareMaxBytes},
	{prepare: prepareDeadLetters},
	{prepare: prepareKeyRate, changed: rateChanged},
	{changed: keysChanged},
	{prepare: prepareFair, changed: fairChanged},
}
