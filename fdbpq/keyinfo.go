package fdbpq

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// KeyInfo is what is known of a key.
type KeyInfo struct {
	Key      string
	Ready    int  // ready items, up to the number that was counted
	More     bool // there are more
	Leased   int  // leased items, and items that wait between two leases in order
	Settings KeySettings

	// What holds for the key: its own settings, or those of the queue.
	Limit  int64 // 0: no limit
	Rate   Rate
	Weight int64 // in a fair queue
	Tokens int64 // that its rate allows now

	CostRate   CostRate
	CostTokens int64 // that its cost rate allows now, negative if it owes some

	WaitsFor WaitsFor      // why its first item is not handed out, "" if it is next in turn, or the key has no ready item
	Retry    time.Duration // until its rates allow a delivery, if it waits for that
}

// MaxKeyCount bounds how many items of a key [Queue.Key] counts.
const MaxKeyCount = 10_000

// listKeyCount bounds how many [Queue.Keys] counts of each.
const listKeyCount = 100

// MaxKeys bounds the keys that Keys returns.
const MaxKeys = 100

// Key returns what is known of a key. ErrNoQueue: there is no such queue.
func (q Queue) Key(r kv.Reader, key string) (KeyInfo, error) {
	if key == "" {
		return KeyInfo{}, ErrNoKey
	}
	if err := CheckKey(key); err != nil {
		return KeyInfo{}, err
	}
	qtx, err := q.view(r)
	if err != nil {
		return KeyInfo{}, err
	}
	if qtx == nil {
		return KeyInfo{}, ErrNoQueue
	}
	return qtx.keyInfos.of(key, MaxKeyCount)
}

// Keys returns the keys behind a key, in the order of their bytes: keys with ready or
// leased items, or settings. ErrNoQueue: there is no such queue.
func (q Queue) Keys(r kv.Reader, after string, limit int) ([]KeyInfo, error) {
	if limit < 1 || limit > MaxKeys {
		return nil, fmt.Errorf("%d keys: allowed are 1 to %d", limit, MaxKeys)
	}
	qtx, err := q.view(r)
	if err != nil {
		return nil, err
	}
	if qtx == nil {
		return nil, ErrNoQueue
	}
	var keys []KeyInfo
	for len(keys) < limit {
		next, err := qtx.keyInfos.behind(after)
		if err != nil || next == "" {
			return keys, err
		}
		info, err := qtx.keyInfos.of(next, listKeyCount)
		if err != nil {
			return nil, err
		}
		keys, after = append(keys, info), next
	}
	return keys, nil
}

// KeyCounts says how many keys have ready items.
type KeyCounts struct {
	Keys    int
	More    bool             // there are more than were counted
	Waiting map[WaitsFor]int // keys whose first item has to wait, by what it waits for
}

// CountKeys counts the keys that have ready items, up to a number.
func (q Queue) CountKeys(r kv.Reader, most int) (KeyCounts, error) {
	counts := KeyCounts{Waiting: make(map[WaitsFor]int)}
	qtx, err := q.view(r)
	if err != nil || qtx == nil || !qtx.state.keyed {
		return counts, err
	}
	space := qtx.prefix(layout.SpaceKeyReady)
	begin, end := tuple.Range(space)
	for ; ; counts.Keys++ {
		rows, err := r.Range(begin, end, kv.RangeOptions{Limit: 1})
		if err != nil || len(rows) == 0 {
			return counts, err
		}
		if counts.More = counts.Keys == most; counts.More {
			return counts, nil
		}
		key, _, err := tuple.ConsumeBytes(rows[0].Key[len(space):])
		if err != nil {
			return counts, fmt.Errorf("damaged row of a key: %w", err)
		}
		if qtx.state.takesTurns() {
			waits, err := qtx.keyInfos.keyWaitsFor(string(key))
			if err != nil {
				return counts, err
			}
			if waits != "" {
				counts.Waiting[waits]++
			}
		}
		begin = tuple.PrefixEnd(tuple.AppendBytes(space[:len(space):len(space)], key))
	}
}

// keyInfos tells what is known of keys, and what their items wait for.
type keyInfos struct{ *queueRows }

// behind returns the first key behind a key, "" behind the last.
func (x keyInfos) behind(after string) (first string, err error) {
	generation := x.state.generation
	for _, prefix := range [][]byte{
		layout.GenerationPrefix(layout.SpaceKeyReady, x.name, generation),
		layout.GenerationPrefix(layout.SpaceKeyHeld, x.name, generation),
		layout.QueueRow(layout.SpaceSettings, x.name),
	} {
		begin, end := tuple.Range(prefix)
		if after != "" {
			begin = tuple.PrefixEnd(tuple.AppendBytes(prefix[:len(prefix):len(prefix)], []byte(after)))
		}
		rows, err := x.snapshot.Range(begin, end, kv.RangeOptions{Limit: 1})
		if err != nil {
			return "", err
		}
		if len(rows) == 0 {
			continue
		}
		key, _, err := tuple.ConsumeBytes(rows[0].Key[len(prefix):])
		if err != nil {
			return "", fmt.Errorf("damaged row of a key: %w", err)
		}
		if first == "" || string(key) < first {
			first = string(key)
		}
	}
	return first, nil
}

// ahead counts the ready items of its key that are handed out before an item.
func (x keyInfos) ahead(l *layout.Item) (int, error) {
	if l.State != layout.StateReady || l.Key == "" {
		return 0, nil
	}
	space := layout.SpaceKeyReady
	if x.state.config.KeyOrder && l.Begun() {
		space = layout.SpaceKeyBegun
	}
	begin, _ := tuple.Range(x.rowsOfKey(space, l.Key))
	before, err := x.snapshot.Range(begin, x.keyIndex.placeRow(space, l.Key, l.Place), kv.RangeOptions{Limit: MaxKeyCount})
	if err != nil || len(before) == MaxKeyCount || !x.state.config.KeyOrder || space == layout.SpaceKeyBegun {
		return len(before), err
	}
	begin = append(x.keyIndex.placeRow(layout.SpaceKeyBegun, l.Key, l.Place), 0)
	_, end := tuple.Range(x.rowsOfKey(layout.SpaceKeyBegun, l.Key))
	begun, err := x.snapshot.Range(begin, end, kv.RangeOptions{Limit: MaxKeyCount - len(before)})
	return len(before) + len(begun), err
}

func (x keyInfos) of(key string, most int) (KeyInfo, error) {
	info := KeyInfo{Key: key}
	begin, end := tuple.Range(x.rowsOfKey(layout.SpaceKeyReady, key))
	ready, err := x.snapshot.Range(begin, end, kv.RangeOptions{Limit: most + 1})
	if err != nil {
		return KeyInfo{}, err
	}
	info.Ready, info.More = min(len(ready), most), len(ready) > most
	if info.Leased, err = x.keyLimits.held(x.snapshot, key, most); err != nil {
		return KeyInfo{}, err
	}
	if info.Settings, err = x.settings.of(x.snapshot, key); err != nil {
		return KeyInfo{}, err
	}
	config := &x.state.config
	info.Limit, info.Rate = info.Settings.limit(config), info.Settings.rate(config)
	if info.Weight, err = x.fairIndex.weightOf(x.snapshot, key, &info.Settings); err != nil {
		return KeyInfo{}, err
	}
	if err := x.tokens(&info); err != nil {
		return KeyInfo{}, err
	}
	if len(ready) == 0 {
		return info, nil
	}
	if x.state.paused {
		info.WaitsFor = WaitsForPause
		return info, nil
	}
	info.WaitsFor, err = x.keyWaitsFor(key)
	return info, err
}

// tokens says what tokens a key has, and when its next delivery may be.
func (x keyInfos) tokens(info *KeyInfo) error {
	info.CostRate = info.Settings.costRate(&x.state.config)
	if info.Rate == (Rate{}) && info.CostRate == (CostRate{}) {
		return nil
	}
	bs, err := x.rates.readBoth(x.snapshot, info.Settings.buckets(info.Key, &x.state.config))
	if err != nil {
		return err
	}
	now, err := x.now()
	if err != nil {
		return err
	}
	if info.Rate != (Rate{}) {
		info.Tokens = bs[ofDeliveries].tokens(now)
	}
	if info.CostRate != (CostRate{}) {
		info.CostTokens = bs[ofCost].level(now)
	}
	if bs.allow(now) == 0 {
		info.Retry = time.Duration(max(bs.next()-now, 1))
	}
	return nil
}

// waitsFor says what keeps an item from being handed out.
func (x keyInfos) waitsFor(l *layout.Item) (WaitsFor, error) {
	switch {
	case l.State == layout.StateDelayed:
		return WaitsForDelay, nil
	case l.State == layout.StateLeased:
		return "", nil
	case x.state.paused:
		return WaitsForPause, nil
	}
	if l.Key != "" {
		if waits, err := x.itemWaitsFor(l); err != nil || waits != "" {
			return waits, err
		}
	}
	until, err := x.rates.spent(x.state.config.buckets())
	if err != nil || until == 0 {
		return "", err
	}
	return WaitsForRate, nil
}

// itemWaitsFor says what keeps an item with a key from being handed out when it is the next
// one of its queue.
func (x keyInfos) itemWaitsFor(l *layout.Item) (WaitsFor, error) {
	waits, err := x.keyWaitsFor(l.Key)
	if err != nil || waits == WaitsForPause || !x.state.config.KeyOrder {
		return waits, err
	}
	first, _, err := x.keyIndex.first(x.snapshot, l.Key)
	if err == nil && first != l.Place {
		return WaitsForKeyOrder, nil
	}
	return waits, err
}

// keyWaitsFor says what keeps the first item of a key from being handed out.
func (x keyInfos) keyWaitsFor(key string) (WaitsFor, error) {
	config := &x.state.config
	settings, err := x.settings.of(x.snapshot, key)
	if err != nil {
		return "", err
	}
	if settings.paused() {
		return WaitsForPause, nil
	}
	if limit := int(settings.limit(config)); limit > 0 {
		held, err := x.keyLimits.held(x.snapshot, key, limit)
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
	of := settings.buckets(key, config)
	bs, err := x.rates.readBoth(x.snapshot, of)
	if err != nil {
		return "", err
	}
	now, err := x.now()
	if err != nil {
		return "", err
	}
	for i, waits := range [...]WaitsFor{ofDeliveries: WaitsForKeyRate, ofCost: WaitsForKeyCost} {
		if of[i].rate != (Rate{}) && bs[i].tokens(now) == 0 {
			return waits, nil
		}
	}
	if none, err := x.rates.noRoom(&bs); err != nil || !none {
		return "", err
	}
	if of[ofDeliveries].rate == (Rate{}) {
		return WaitsForKeyCost, nil
	}
	return WaitsForKeyRate, nil
}
