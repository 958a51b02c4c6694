package fdbpq

import (
	"encoding/json"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

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

// KeySettings returns what is set for a key: nothing where there is no such queue.
func (q Queue) KeySettings(r kv.Reader, key string) (KeySettings, error) {
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return KeySettings{}, err
	}
	return settings{&qtx.queueRows}.of(r, key)
}
