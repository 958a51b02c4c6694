package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"

// mostInterruptions is after how many an item is dead; 0: never.
func (c *Config) mostInterruptions() int64 { return c.MaxInterruptions.or(c.MaxDeliveries) }

// limitsKeys reports whether the items of a key may have to wait for each other.
func (c *Config) limitsKeys() bool { return c.KeyLimit > 0 || c.KeyOrder }

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
	if err := c.checkBounds(); err != nil {
		return err
	}
	return c.Fair.check()
}
