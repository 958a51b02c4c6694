package fdbpq

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// MaxKey bounds the bytes of a key.
const MaxKey = 128

// MaxWeight is the greatest weight of a key.
const MaxWeight = 1000

// ErrKey: the key is not as it should be.
var ErrKey = errors.New("key")

// ErrNoKey: the request is about one key, and names no key.
var ErrNoKey = errors.New("expected a key")

// ErrWeight: a weight is out of bounds.
var ErrWeight = errors.New("weight out of bounds")

// CheckKey returns an error when a key is not as it should be.
func CheckKey(key string) error {
	switch {
	case len(key) > MaxKey:
		return fmt.Errorf("%w of %d bytes: allowed are %d", ErrKey, len(key), MaxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w %q: expected UTF-8", ErrKey, key)
	case strings.ContainsFunc(key, unicode.IsControl):
		return fmt.Errorf("%w %q: control characters are not allowed", ErrKey, key)
	case key != strings.TrimSpace(key):
		return fmt.Errorf("%w %q: spaces at its ends are not allowed", ErrKey, key)
	}
	return nil
}

// CheckWeight returns an error unless a push may have the weight, which belongs to the key of the item.
func CheckWeight(key string, weight int64) error {
	switch {
	case weight == 0:
		return nil
	case key == "":
		return fmt.Errorf("%w: a weight without a key: expected the key that it is about", ErrWeight)
	}
	return checkWeight(weight)
}

func checkWeight(weight int64) error {
	if weight < 1 || weight > MaxWeight {
		return fmt.Errorf("%w: %d, allowed are 1 to %d", ErrWeight, weight, MaxWeight)
	}
	return nil
}

// KeySettings are what an administrator has set for one key of a queue. A setting that
// is nil leaves it to the queue's configuration, or to the pushes.
type KeySettings struct {
	Limit  *int64 `json:"limit,omitempty"`  // instead of key_limit; 0: no limit
	Rate   *Rate  `json:"rate,omitempty"`   // instead of key_rate; the zero Rate: no bound
	Weight *int64 `json:"weight,omitempty"` // its share where keys take turns, whatever its pushes say
	Paused *bool  `json:"paused,omitempty"` // its items are not handed out

	CostRate *CostRate `json:"cost_rate,omitempty"` // instead of key_cost_rate; the zero CostRate: no bound
}

// MaxKeysSet bounds how many keys of a queue may have settings of their own.
const MaxKeysSet = 1_000_000

var keySettingNames = []string{"limit", "rate", "weight", "paused", "cost_rate"}

func (k *KeySettings) paused() bool { return k.Paused != nil && *k.Paused }

// limit is how many items of the key may be leased at a time, 0 for any number.
func (k *KeySettings) limit(c *Config) int64 {
	switch {
	case c.KeyOrder:
		return 1
	case k.Limit != nil:
		return *k.Limit
	}
	return c.KeyLimit
}

func (k *KeySettings) rate(c *Config) Rate {
	if k.Rate != nil {
		return *k.Rate
	}
	return c.KeyRate
}

func (k *KeySettings) costRate(c *Config) CostRate {
	if k.CostRate != nil {
		return *k.CostRate
	}
	return c.KeyCostRate
}

// buckets are the buckets of a key.
func (k *KeySettings) buckets(key string, c *Config) [2]bucketOf {
	return [2]bucketOf{ofDeliveries: {key: key, rate: k.rate(c)}, ofCost: {key: key, cost: true, rate: Rate(k.costRate(c))}}
}

// merge returns the settings with the fields of the JSON object replaced. null drops a setting.
func (k KeySettings) merge(object []byte) (KeySettings, error) {
	if err := jsonfields.Check(object, keySettingNames, true); err != nil {
		return KeySettings{}, &ConfigError{err.Error()}
	}
	k = k.clone() // or the values that it points to would be replaced
	if err := jsonfields.Decode(object, &k); err != nil {
		return KeySettings{}, &ConfigError{err.Error()}
	}
	if k.Limit != nil && (*k.Limit < 0 || *k.Limit > MaxKeyLimit) {
		return KeySettings{}, configError("limit is %d: allowed are 0, for no limit, to %d", *k.Limit, MaxKeyLimit)
	}
	if k.Weight != nil {
		if err := checkWeight(*k.Weight); err != nil {
			return KeySettings{}, configError("%s", err)
		}
	}
	return k, nil
}

func (k KeySettings) clone() KeySettings {
	return KeySettings{Limit: copied(k.Limit), Rate: copied(k.Rate), Weight: copied(k.Weight), Paused: copied(k.Paused), CostRate: copied(k.CostRate)}
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// counted and limits count a key's settings as 0 or 1 for the queue's state.
func counted(k KeySettings) int64 {
	if k == (KeySettings{}) {
		return 0
	}
	return 1
}

func limits(k KeySettings) int64 {
	if k.Limit != nil && *k.Limit > 0 {
		return 1
	}
	return 0
}

// SetKey changes the settings of a key that the JSON object names, and makes the queue
// if need be. A setting of null is dropped.
func (q Queue) SetKey(tx kv.Tx, key string, object []byte) (KeySettings, error) {
	if key == "" {
		return KeySettings{}, ErrNoKey
	}
	if err := CheckKey(key); err != nil {
		return KeySettings{}, err
	}
	qtx, err := q.administer(tx)
	if err == nil {
		err = qtx.orCreate()
	}
	if err != nil {
		return KeySettings{}, err
	}
	s := qtx.state
	before, err := qtx.settings.of(tx, key)
	if err != nil {
		return KeySettings{}, err
	}
	after, err := before.merge(object)
	if err != nil || reflect.DeepEqual(before, after) {
		return after, err
	}
	changed := *s
	changed.keysSet += counted(after) - counted(before)
	changed.keysLimited += limits(after) - limits(before)
	changed.costed = changed.costed || after.CostRate != nil
	changed.fairTags = changed.fairTags || s.config.Fair != "" && after.Weight != nil && *after.Weight != 1
	if changed.keysSet > s.keysSet && s.keysSet >= q.store.maxKeysSet {
		return KeySettings{}, configError("%d keys of the queue have settings of their own, as many as may have them: null drops a setting", s.keysSet)
	}
	if after == (KeySettings{}) {
		tx.Clear(settingsRow(q.name, key))
	} else {
		row, err := json.Marshal(after)
		if err != nil {
			return KeySettings{}, fmt.Errorf("settings of a key: %w", err)
		}
		tx.Set(settingsRow(q.name, key), row)
	}
	if err := qtx.writeState(&changed); err != nil {
		return KeySettings{}, err
	}
	if err := qtx.rates.change(before.buckets(key, &s.config), after.buckets(key, &s.config)); err != nil {
		return KeySettings{}, err
	}
	if err := qtx.keyIndex.lookAgain(tx, key); err != nil {
		return KeySettings{}, err
	}
	return after, qtx.done()
}

// KeySettings returns the settings of a key, which are empty where there is no such queue.
func (q Queue) KeySettings(r kv.Reader, key string) (KeySettings, error) {
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return KeySettings{}, err
	}
	return qtx.settings.of(r, key)
}

func settingsRow(queue, key string) []byte {
	return tuple.AppendBytes(layout.QueueRow(layout.SpaceSettings, queue), []byte(key))
}

// settings reads the settings of keys.
type settings struct{ *queueRows }

// of returns what is set for a key.
func (t settings) of(r kv.Reader, key string) (k KeySettings, err error) {
	if t.state.keysSet == 0 {
		return KeySettings{}, nil
	}
	row, err := r.Get(settingsRow(t.name, key))
	if err == nil && row != nil {
		err = json.Unmarshal(row, &k)
	}
	if err != nil {
		return KeySettings{}, fmt.Errorf("damaged settings of key %q: %w", key, err)
	}
	return k, nil
}
