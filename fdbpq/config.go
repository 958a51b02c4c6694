package fdbpq

import (
	"reflect"
	"strings"
)

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

// configFields are the names of the fields in JSON.
var configFields = func() (names []string) {
	for field := range reflect.TypeFor[Config]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}()

func (c *Config) check() error {
	if err := c.checkBounds(); err != nil {
		return err
	}
	return c.Fair.check()
}
