package fdbpq

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// mostInterruptions is after how many an item is dead; 0: never.
func (c *Config) mostInterruptions() int64 { return c.MaxInterruptions.or(c.MaxDeliveries) }

// limitsKeys reports whether the items of a key may have to wait for each other.
func (c *Config) limitsKeys() bool { return c.KeyLimit > 0 || c.KeyOrder }

// ratesKeys reports whether keys have a rate, of deliveries or of their cost.
func (c *Config) ratesKeys() bool { return c.KeyRate != (Rate{}) || c.KeyCostRate != (CostRate{}) }

// rates reports whether the queue has a rate.
func (c *Config) rates() bool { return c.Rate != (Rate{}) || c.CostRate != (CostRate{}) }

// buckets are the buckets of a queue.
func (c *Config) buckets() [2]bucketOf {
	return [2]bucketOf{ofDeliveries: {rate: c.Rate}, ofCost: {cost: true, rate: Rate(c.CostRate)}}
}

// A delay and a TTL have the same bound, or this does not compile.
var _ = [1]struct{}{}[MaxDelay-MaxTTL]

// Merge returns the configuration with the fields of the JSON object replaced.
// Unknown fields and values out of bounds are errors that say what is allowed.
func (c Config) Merge(object []byte) (Config, error) {
	if err := jsonfields.Check(object, configFields, false); err != nil {
		return Config{}, &ConfigError{err.Error()}
	}
	if err := jsonfields.Decode(object, &c); err != nil {
		return Config{}, &ConfigError{err.Error()}
	}
	return c, c.check()
}

var configFields = jsonfields.Names[Config]()

func (c *Config) check() error {
	return cmp.Or(checkExpireEmpty(c.ExpireEmpty), c.checkBounds(), c.Fair.check())
}

// ConfigError says what is wrong with a configuration.
type ConfigError struct {
	Text string
}

func configError(format string, args ...any) error {
	return &ConfigError{fmt.Errorf(format, args...).Error()}
}

func (e *ConfigError) Error() string { return "configuration: " + e.Text }

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
		err = qtx.stageNew()
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
		if err := disuseChanged(qtx, &s.config); err != nil {
			return Config{}, err
		}
		return changed.config, qtx.deadLetters.create()
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
	{changed: disuseChanged},
}

// prepareBackoff reads the backoff of the configuration.
func prepareBackoff(_ *queueTx, next *queueState) (err error) {
	next.backoff, err = next.config.Backoff.parse()
	return err
}

// prepareMaxBytes refuses a bound beyond the bound of the store. One that was beyond it before stays, and does not count: the operator
// may have lowered the bound since.
func prepareMaxBytes(qtx *queueTx, next *queueState) error {
	is, most := &qtx.state.config, qtx.store.maxQueueBytes
	for _, of := range [...]struct {
		field    string
		is, next int64
	}{
		{"max_bytes", is.MaxBytes, next.config.MaxBytes},
		{"result_bytes", is.ResultBytes, next.config.ResultBytes},
	} {
		if most > 0 && of.next > most && of.next != of.is {
			return configError("%s is %d: no queue here may have more than %d, as the operator of pqd has set", of.field, of.next, most)
		}
	}
	return nil
}

// prepareDeadLetters refuses a dead-letter queue to which dead letters may not go.
func prepareDeadLetters(qtx *queueTx, next *queueState) error {
	c := &next.config
	if c.DeadLetter != "" && c.DeadLetter != qtx.state.config.DeadLetter {
		return qtx.deadLetters.mayGoTo(c.DeadLetter)
	}
	if c.DeadLetterExpired && c.DeadLetter == "" {
		return qtx.deadLetters.needed("dead_letter_expired")
	}
	return nil
}

// prepareKeyRate notes since when keys have another rate, and that the queue knows costs.
func prepareKeyRate(qtx *queueTx, next *queueState) error {
	is, c := &qtx.state.config, &next.config
	next.costed = next.costed || c.CostRate != (CostRate{}) || c.KeyCostRate != (CostRate{})
	if c.KeyRate == is.KeyRate && c.KeyCostRate == is.KeyCostRate {
		return nil
	}
	now, err := qtx.now()
	if err != nil {
		return err
	}
	if c.KeyRate != is.KeyRate {
		next.keyRateSince = now
	}
	if c.KeyCostRate != is.KeyCostRate {
		next.keyCostSince = now
	}
	return nil
}

// rateChanged has the queue's tokens come at another rate.
func rateChanged(qtx *queueTx, before *Config) error {
	was, is := before.buckets(), qtx.state.config.buckets()
	if was == is {
		return nil
	}
	qtx.arrive()
	return qtx.rates.change(was, is)
}

// keysChanged has pops look at all keys if another configuration may let them go.
func keysChanged(qtx *queueTx, before *Config) error {
	c := &qtx.state.config
	if !qtx.state.keyed || c.KeyLimit == before.KeyLimit && c.KeyOrder == before.KeyOrder && c.KeyRate == before.KeyRate && c.KeyCostRate == before.KeyCostRate {
		return nil
	}
	return qtx.keyIndex.rebuildAll()
}

// prepareFair begins another order.
func prepareFair(qtx *queueTx, next *queueState) error {
	if next.config.Fair != qtx.state.config.Fair {
		qtx.fairIndex.leave()
		next.fairOrder++
		next.fairBuilt = next.config.Fair != "" && !next.keyed
		next.fairTags = next.fairTags || next.config.Fair != "" && next.keysSet > 0
	}
	return nil
}

// fairChanged has all keys get a row in another order.
func fairChanged(qtx *queueTx, before *Config) error {
	if c := &qtx.state.config; c.Fair == before.Fair || c.Fair == "" || qtx.state.fairBuilt {
		return nil
	}
	return qtx.fairIndex.buildLater("")
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

// MaxDelay bounds delays, as MaxTTL bounds TTLs: it keeps due times far from overflow.
const MaxDelay = 87600 * time.Hour

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
