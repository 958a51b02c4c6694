package client

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// KeyInfo is what is known of a key.
type KeyInfo = protocol.KeyInfo

// KeySettings are what an administrator has set for a key. What is nil goes by the queue's
// configuration, or by the pushes.
type KeySettings = protocol.KeySettings

// KeyChange has the settings of a key to change. What is nil stays as it is; Drop names
// settings that go by the queue again.
type KeyChange = protocol.KeyChange

// Keys returns the keys behind one that have ready or leased items, or settings, in the
// order of their bytes; "" is in front of all. An error ends the sequence.
func (q *Queue) Keys(ctx context.Context, after string) iter.Seq2[KeyInfo, error] {
	return func(yield func(KeyInfo, error) bool) {
		for {
			body, err := json.Marshal(protocol.KeysRequest{After: after})
			var page protocol.KeysPage
			if err == nil {
				err = q.ask(ctx, "keys", subjects.Subject{Verb: subjects.Keys}, body, &page)
			}
			if err != nil {
				yield(KeyInfo{}, err)
				return
			}
			for _, k := range page.Keys {
				if !yield(k, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}

// Key returns what is known of a key. One that nobody has used has no items.
func (q *Queue) Key(ctx context.Context, key string) (info KeyInfo, err error) {
	err = q.ask(ctx, "key", subjects.Subject{Verb: subjects.Key, Key: key}, nil, &info)
	return info, err
}

// SetKey changes the settings of a key, and creates the queue if necessary. It returns all
// settings of the key.
func (q *Queue) SetKey(ctx context.Context, key string, change KeyChange) (settings KeySettings, err error) {
	body, err := json.Marshal(change)
	if err != nil {
		return KeySettings{}, err
	}
	err = q.ask(ctx, "set key", subjects.Subject{Verb: subjects.AdminKey, Key: key}, body, &settings)
	return settings, err
}
