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

// endWaits has pops look at keys that have a token at a time, where no pop has cleared their
// rows since. After a purge these are keys without items, and a key that was given a token
// back has one before its row says so.
func (x keyIndex) endWaits(at int64) error {
	keys, more, err := x.waitsDue(at, true)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := x.lookAgain(x.snapshot, key); err != nil {
			return err
		}
	}
	if more {
		return timers{x.queueRows}.atOnce(layout.TimerTokens, "")
	}
	return nil
}

// waitsDue returns a bounded number of keys that wait for a token until a time at most,
// and whether there may be more. If they are to be looked at, it clears their rows.
func (x keyIndex) waitsDue(at int64, remove bool) (keys []string, more bool, err error) {
	prefix := layout.QueueRow(layout.SpaceKeyWaits, x.name)
	begin, _ := tuple.Range(prefix)
	rows, err := x.snapshot.Range(begin, keyWaitsRow(x.name, at+1, ""), kv.RangeOptions{Limit: maxKeyVisits})
	if err != nil {
		return nil, false, err
	}
	for _, row := range rows {
		key, err := waitingKey(row.Key[len(prefix):])
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

// nextToken is the time until a key that waits for a token has one, 0 if none waits. token is the
// store time for keys without a row, 0 for none. Keys that have a token by now were looked at, or
// wait for none any more.
func (x keyIndex) nextToken(token int64) (time.Duration, error) {
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
		first, _, err := tuple.ConsumeInt(rows[0].Key[len(prefix):])
		if err != nil {
			return 0, fmt.Errorf("damaged row of a key that waits: %w", err)
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

func waitingKey(rest []byte) (string, error) {
	r := tuple.Read(rest)
	r.Int() // when it has a token
	key := string(r.Bytes())
	if r.Err() != nil {
		return "", fmt.Errorf("damaged row of a key that waits: %w", r.Err())
	}
	return key, nil
}

// maxKeyVisits bounds how many keys that give no item one pop looks at, and maxPeekVisits how
// many one peek does. A pop clears their rows, so that another one goes on; a peek finds
// nothing.
const (
	maxKeyVisits  = 256
	maxPeekVisits = 1024
)
