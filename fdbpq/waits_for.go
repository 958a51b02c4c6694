package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// WaitsFor is what keeps an item from being handed out.
type WaitsFor string

const (
	WaitsForDelay    WaitsFor = "delay"     // it is delayed
	WaitsForPause    WaitsFor = "pause"     // its queue or its key is paused
	WaitsForRate     WaitsFor = "rate"      // the rate of its queue allows no delivery now
	WaitsForKeyOrder WaitsFor = "key_order" // another item of its key comes first
	WaitsForKeyLimit WaitsFor = "key_limit" // as many of its key are leased as may be
	WaitsForKeyRate  WaitsFor = "key_rate"  // the rate of its key allows no delivery now
)

// waitsFor says what keeps an item from being handed out.
func (qtx *queueTx) waitsFor(l *located) (WaitsFor, error) {
	switch {
	case l.state == StateDelayed:
		return WaitsForDelay, nil
	case l.state == StateLeased:
		return "", nil
	case qtx.state.paused:
		return WaitsForPause, nil
	}
	if l.key != "" {
		if waits, err := qtx.waitsForKey(l); err != nil || waits != "" {
			return waits, err
		}
	}
	empty, err := qtx.outOfTokens(qtx.bucketRow(), qtx.state.config.Rate)
	if err != nil || !empty {
		return "", err
	}
	return WaitsForRate, nil
}

// waitsForKey says what keeps an item with a key from being handed out when it is the next
// one of its queue.
func (qtx *queueTx) waitsForKey(l *located) (WaitsFor, error) {
	waits, err := qtx.keyWaitsFor(l.key)
	if err != nil || waits == WaitsForPause || !qtx.state.config.KeyOrder {
		return waits, err
	}
	first, _, err := qtx.firstOfKey(qtx.snapshot, l.key)
	if err == nil && first != l.place {
		return WaitsForKeyOrder, nil
	}
	return waits, err
}

// keyWaitsFor says what keeps the first item of a key from being handed out.
func (qtx *queueTx) keyWaitsFor(key string) (WaitsFor, error) {
	config := &qtx.state.config
	settings, err := qtx.settingsOf(qtx.snapshot, qtx.state, key)
	if err != nil {
		return "", err
	}
	if settings.paused() {
		return WaitsForPause, nil
	}
	if limit := int(settings.limit(config)); limit > 0 {
		held, err := qtx.heldBy(qtx.snapshot, key, limit)
		if err != nil {
			return "", err
		}
		if held == limit && config.KeyOrder {
			return WaitsForKeyOrder, nil
		}
		if held == limit {
			return WaitsForKeyLimit, nil
		}
	}
	rate := settings.rate(config)
	if rate == (Rate{}) {
		return "", nil
	}
	empty, err := qtx.outOfTokens(qtx.keyBucketRow(key), rate)
	if err == nil && !empty {
		empty, err = qtx.noBucketOf(key)
	}
	if err != nil || !empty {
		return "", err
	}
	return WaitsForKeyRate, nil
}

// heldBy counts the leased items of a key, and those that wait between two leases in
// order, up to a number.
func (qtx *queueTx) heldBy(r kv.Reader, key string, most int) (int, error) {
	begin, end := qtx.heldRows(key)
	held, err := r.Range(begin, end, kv.RangeOptions{Limit: most})
	return len(held), err
}

// heldRows is the range of the rows of a key's leases.
func (qtx *queueTx) heldRows(key string) (begin, end []byte) {
	return tuple.Range(qtx.keyRow(spaceKeyHeld, key))
}

// outOfTokens reports whether a rate allows no delivery now.
func (qtx *queueTx) outOfTokens(row []byte, rate Rate) (bool, error) {
	if rate == (Rate{}) {
		return false, nil
	}
	b, err := qtx.readBucket(qtx.snapshot, row, rate)
	if err != nil {
		return false, err
	}
	now, err := qtx.now()
	return b.tokens(now) == 0, err
}
