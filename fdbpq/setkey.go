package fdbpq

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

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
	before, err := settings{&qtx.queueRows}.of(tx, key)
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
	if changed.keysSet > s.keysSet && s.keysSet >= q.store.maxKeysSet {
		return KeySettings{}, configError("%d keys of the queue have settings of their own: no more may. null drops a setting", s.keysSet)
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
	if err := (rates{&qtx.queueRows}).changeKey(key, before.rate(&s.config), after.rate(&s.config)); err != nil {
		return KeySettings{}, err
	}
	if err := (keyIndex{&qtx.queueRows}).lookAgain(tx, key); err != nil {
		return KeySettings{}, err
	}
	return after, qtx.done()
}
