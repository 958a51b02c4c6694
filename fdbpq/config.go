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
	"strconv"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/jsontext"
)

// MaxDelay bounds delays as a TTL is bounded: it keeps due times far from overflow.
const MaxDelay = MaxTTL

// Most is how often something may happen: a number in decimal, or "" for as often as another setting
// says.
type Most string

// MarshalJSON implements json.Marshaler.
func (m Most) MarshalJSON() ([]byte, error) {
	if m == "" {
		return []byte(`""`), nil
	}
	return []byte(m), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Most) UnmarshalJSON(text []byte) error {
	if string(text) == `""` {
		*m = ""
		return nil
	}
	n, err := strconv.ParseUint(string(text), 10, 63)
	if err != nil {
		return errors.New(`expected a number from 0 on, or ""`)
	}
	*m = Most(strconv.FormatUint(n, 10))
	return nil
}

// or is the number, or that of the other setting.
func (m Most) or(other int64) int64 {
	n, err := strconv.ParseInt(string(m), 10, 64)
	if err != nil {
		return other
	}
	return n
}

// mostInterruptions is after how many an item is dead; 0: never.
func (c *Config) mostInterruptions() int64 { return c.MaxInterruptions.or(c.MaxDeliveries) }

// limitsKeys reports whether the items of a key may have to wait for each other.
func (c *Config) limitsKeys() bool { return c.KeyLimit > 0 || c.KeyOrder }

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
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
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

func (c *Config) check() error {
	if err := c.checkBounds(); err != nil {
		return err
	}
	return c.Fair.check()
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
