package client

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// KeyInfo is the state of a key.
type KeyInfo = protocol.KeyInfo

// KeySettings are the settings of a key that an administrator has made. For a nil setting the queue's configuration
// holds, or the pushes'.
type KeySettings = protocol.KeySettings

// KeyChange has the settings of a key to change. Nil settings stay as they are; Drop names settings to drop, for
// which the queue's hold again.
type KeyChange = protocol.KeyChange

// Keys returns the keys behind after that have ready or leased items, or settings, in the order of their bytes; ""
// begins with the first. An error ends the sequence.
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

// Key returns the state of a key. A key that nobody has used has no items.
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
