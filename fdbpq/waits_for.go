package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// WaitsFor is what keeps an item from being handed out.
type WaitsFor string

const (
	WaitsForDelay    WaitsFor = "delay"     // it is delayed
	WaitsForPause    WaitsFor = "pause"     // its queue is paused
	WaitsForKeyOrder WaitsFor = "key_order" // another item of its key comes first
	WaitsForKeyLimit WaitsFor = "key_limit" // as many of its key are leased as may be
)

// waitsFor says what keeps an item from being handed out.
func (qtx *queueTx) waitsFor(l *located) (WaitsFor, error) {
	config := &qtx.state.config
	switch {
	case l.state == StateDelayed:
		return WaitsForDelay, nil
	case l.state == StateLeased:
		return "", nil
	case qtx.state.paused:
		return WaitsForPause, nil
	case l.key == "" || !config.limitsKeys():
		return "", nil
	}
	if config.KeyOrder {
		first, _, err := qtx.firstOfKey(qtx.snapshot, l.key)
		if err != nil {
			return "", err
		}
		if first != l.place {
			return WaitsForKeyOrder, nil
		}
	}
	begin, end := tuple.Range(qtx.keyRow(spaceKeyHeld, l.key))
	held, err := qtx.snapshot.Range(begin, end, kv.RangeOptions{Limit: config.leasesOfKey()})
	switch {
	case err != nil || len(held) < config.leasesOfKey():
		return "", err
	case config.KeyOrder:
		return WaitsForKeyOrder, nil
	}
	return WaitsForKeyLimit, nil
}
