package fdbpq

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// keyWaitsRow is the row of a key that has a token from a time on.
func keyWaitsRow(queue string, due int64, key string) []byte {
	return tuple.AppendBytes(tuple.AppendInt(layout.QueueRow(layout.SpaceKeyWaits, queue), due), []byte(key))
}

// keyWaits has the rows of keys that wait for a token.
type keyWaits struct{ *queueRows }

// end writes the index rows of keys that have a token by a time, unless a pop has done so. After a
// purge these keys have no items, and a key that got a token back has it before its row says so.
func (x keyWaits) end(at int64) error {
	keys, more, err := x.over(at, true)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := x.keyIndex.lookAgain(x.snapshot, key); err != nil {
			return err
		}
	}
	if more {
		return x.timers.atOnce(layout.TimerTokens, "")
	}
	return nil
}

// over returns a bounded number of keys whose wait for a token ends by a time, and whether
// there may be more. With remove it clears the rows of these waits.
func (x keyWaits) over(at int64, remove bool) (keys []string, more bool, err error) {
	prefix := layout.QueueRow(layout.SpaceKeyWaits, x.name)
	begin, _ := tuple.Range(prefix)
	rows, err := x.snapshot.Range(begin, keyWaitsRow(x.name, at+1, ""), kv.RangeOptions{Limit: maxKeyVisits})
	if err != nil {
		return nil, false, err
	}
	for _, row := range rows {
		_, key, err := parseKeyWait(row.Key[len(prefix):])
		if err != nil {
			return nil, false, err
		}
		keys = append(keys, key)
		if remove {
			x.tx.Conflict(row.Key) // a process whose time is behind may write it again
			x.tx.Clear(row.Key)
		}
	}
	return keys, len(rows) == maxKeyVisits, nil
}

// nextToken is the time until the first of the keys that wait for a token has it, 0 if no key waits. token is the
// store time at which a key without a row has it, 0 without such a key. Keys that have a token by now were looked
// at, or wait no more.
func (x keyWaits) nextToken(token int64) (time.Duration, error) {
	if !x.state.keysMayWait() {
		return 0, nil
	}
	now, err := x.now()
	if err != nil {
		return 0, err
	}
	prefix := layout.QueueRow(layout.SpaceKeyWaits, x.name)
	_, end := tuple.Range(prefix)
	rows, err := x.snapshot.Range(keyWaitsRow(x.name, now+1, ""), end, kv.RangeOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	due := token
	if len(rows) > 0 {
		first, _, err := parseKeyWait(rows[0].Key[len(prefix):])
		if err != nil {
			return 0, err
		}
		if due == 0 || first < due {
			due = first
		}
	}
	if due == 0 {
		return 0, nil
	}
	return time.Duration(due - now), nil
}

// parseKeyWait reads the end of a keyWaitsRow: when the key has a token, and the key.
func parseKeyWait(rest []byte) (due int64, key string, err error) {
	r := tuple.Read(rest)
	due, key = r.Int(), string(r.Bytes())
	if r.Err() != nil {
		return 0, "", fmt.Errorf("damaged row of a key that waits: %w", r.Err())
	}
	return due, key, nil
}

// maxKeyVisits bounds how many keys without an item to give one pop visits, and maxPeekVisits how
// many one peek visits. A pop clears their rows, so that another pop goes on; a peek finds no item.
const (
	maxKeyVisits  = 256
	maxPeekVisits = 1024
)
