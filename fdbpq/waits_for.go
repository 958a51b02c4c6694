package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
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
func (x keyInfos) waitsFor(l *located) (WaitsFor, error) {
	switch {
	case l.state == StateDelayed:
		return WaitsForDelay, nil
	case l.state == StateLeased:
		return "", nil
	case x.state.paused:
		return WaitsForPause, nil
	}
	if l.key != "" {
		if waits, err := x.itemWaitsFor(l); err != nil || waits != "" {
			return waits, err
		}
	}
	empty, err := rates{x.queueTx}.spent(x.bucketRow(), x.state.config.Rate)
	if err != nil || !empty {
		return "", err
	}
	return WaitsForRate, nil
}

// itemWaitsFor says what keeps an item with a key from being handed out when it is the next
// one of its queue.
func (x keyInfos) itemWaitsFor(l *located) (WaitsFor, error) {
	waits, err := x.keyWaitsFor(l.key)
	if err != nil || waits == WaitsForPause || !x.state.config.KeyOrder {
		return waits, err
	}
	first, _, err := keyIndex{x.queueTx}.first(x.snapshot, l.key)
	if err == nil && first != l.place {
		return WaitsForKeyOrder, nil
	}
	return waits, err
}

// keyWaitsFor says what keeps the first item of a key from being handed out.
func (x keyInfos) keyWaitsFor(key string) (WaitsFor, error) {
	config := &x.state.config
	settings, err := x.settingsOf(x.snapshot, x.state, key)
	if err != nil {
		return "", err
	}
	if settings.paused() {
		return WaitsForPause, nil
	}
	if limit := int(settings.limit(config)); limit > 0 {
		held, err := keyLimits{x.queueTx}.held(x.snapshot, key, limit)
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
	empty, err := rates{x.queueTx}.spent(x.keyBucketRow(key), rate)
	if err == nil && !empty {
		empty, err = rates{x.queueTx}.noRoomFor(key)
	}
	if err != nil || !empty {
		return "", err
	}
	return WaitsForKeyRate, nil
}

// keyLimits is what a queue does about the leases of a key.
type keyLimits struct{ *queueTx }

// held counts the leased items of a key, and those that wait between two leases in
// order, up to a number.
func (x keyLimits) held(r kv.Reader, key string, most int) (int, error) {
	begin, end := x.rows(key)
	held, err := r.Range(begin, end, kv.RangeOptions{Limit: most})
	return len(held), err
}

// rows is the range of the rows of a key's leases.
func (x keyLimits) rows(key string) (begin, end []byte) {
	return tuple.Range(keyIndex{x.queueTx}.row(spaceKeyHeld, key))
}

// spent reports whether a rate allows no delivery now.
func (rs rates) spent(row []byte, rate Rate) (bool, error) {
	if rate == (Rate{}) {
		return false, nil
	}
	b, err := rs.read(rs.snapshot, row, rate)
	if err != nil {
		return false, err
	}
	now, err := rs.now()
	return b.tokens(now) == 0, err
}
