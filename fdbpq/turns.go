package fdbpq

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// looks is what one pop knows of the keys that it has looked at.
type looks struct {
	*collector
	keys  map[string]*turn
	count int // of keys that gave no item
}

// turn is a key that a pop has looked at.
type turn struct {
	key      string
	settings KeySettings
	leases   int          // that it may have besides those it has
	bucket   bucket       // of tokens, if a rate holds for it
	tokens   int          // deliveries that the bucket allows
	at       layout.Place // of its next item
	ready    bool         // it has one, and may have it
	fence    int64        // of its next lease, 0 if several of its items may be leased at a time

	begun, fresh *layout.Place // items up to these were selected or passed
}

// givesUp counts a key that gave no item, and reports whether the pop or peek ends with it.
func (l *looks) givesUp() bool {
	l.count++
	if !l.remove {
		return l.count >= maxPeekLooks
	}
	if l.count < maxLooks {
		return false
	}
	l.more = len(l.items) == 0
	return true
}

func (t *turn) room() int { return min(t.leases, t.tokens) }

// lookAt reads how many items a key may have, and which is next. What gives the key room
// again changes what this has read, and so does another delivery of it.
func (l *looks) lookAt(key string) (*turn, error) {
	t := &turn{key: key, leases: math.MaxInt, tokens: math.MaxInt}
	l.keys[key] = t
	config := &l.state.config
	var err error
	if t.settings, err = (settings{&l.queueRows}).of(l.reader(), key); err != nil {
		return nil, err
	}
	if t.settings.paused() {
		t.leases = 0
		return t, nil
	}
	if limit := int(t.settings.limit(config)); limit > 0 {
		held, err := keyLimits{&l.queueRows}.held(l.reader(), key, limit)
		if err != nil {
			return nil, err
		}
		if t.leases = limit - held; t.leases == 0 {
			return t, nil // who ends one of the leases has it looked at again
		}
		if limit == 1 && l.remove {
			if t.fence, err = (fences{&l.queueRows}).next(key); err != nil {
				return nil, err
			}
		}
	}
	if rate := t.settings.rate(config); rate != (Rate{}) {
		now, err := l.now()
		if err != nil {
			return nil, err
		}
		if t.bucket, err = (rates{&l.queueRows}).read(l.reader(), keyBucketRow(l.name, key), rate); err != nil {
			return nil, err
		}
		none, err := rates{&l.queueRows}.noRoom(&t.bucket)
		if err != nil {
			return nil, err
		}
		if none { // look again when a timer has cleared some
			t.bucket.full = now + forgetEvery(layout.TimerTokens) + (rate.N-1)*rate.interval()
		}
		t.tokens = int(t.bucket.tokens(now))
	}
	return t, l.advance(t)
}

// prefetch says that the transaction is about to look at keys whose rows are here, and to
// take their items.
func (l *looks) prefetch(heads []entry) {
	for i := range heads {
		key := string(heads[i].value)
		l.prefetchKey(key)
		l.prefetchItem(key, heads[i].place)
	}
}

// prefetchKey says that the transaction is about to look at a key.
func (l *looks) prefetchKey(key string) {
	if !l.remove || l.keys[key] != nil {
		return
	}
	var unset KeySettings
	if l.state.keysSet > 0 {
		l.tx.Prefetch(settingsRow(l.name, key))
	}
	limit := int(unset.limit(&l.state.config))
	if limit > 0 {
		begin, end := keyLimits{&l.queueRows}.rows(key)
		l.tx.PrefetchRange(begin, end, kv.RangeOptions{Limit: limit})
	}
	if limit == 1 {
		l.tx.Prefetch(keyFenceRow(l.name, key))
	}
	if unset.rate(&l.state.config) != (Rate{}) {
		l.tx.Prefetch(keyBucketRow(l.name, key), layout.CounterKey(l.name, 0, layout.CounterOwing))
	}
	keyIndex{&l.queueRows}.prefetch(key)
}

// prefetchItem says that the transaction is about to take the item of a key at a place, and
// to look for the next one.
func (l *looks) prefetchItem(key string, at layout.Place) {
	if !l.remove || l.keys[key] != nil && l.keys[key].leases == 0 {
		return
	}
	begin, end := rowsBehind(l.rowsOfKey(layout.SpaceKeyReady, key), &at)
	l.tx.PrefetchRange(begin, end, kv.RangeOptions{Limit: 1})
	l.tx.Prefetch(l.queueTx.key(layout.SpaceKeyed, at))
}

// advance finds the next item of a key.
func (l *looks) advance(t *turn) (err error) {
	if t.ready = false; t.leases == 0 {
		return nil
	}
	found := false
	if l.state.config.KeyOrder {
		if t.at, found, err = (keyIndex{&l.queueRows}).firstIn(l.snapshot, layout.SpaceKeyBegun, t.key, t.begun); err != nil {
			return err
		}
		if found {
			t.begun = &layout.Place{Priority: t.at.Priority, Suffix: t.at.Suffix}
		}
	}
	if !found {
		if t.at, found, err = (keyIndex{&l.queueRows}).firstIn(l.snapshot, layout.SpaceKeyReady, t.key, t.fresh); err != nil {
			return err
		}
		t.fresh = &layout.Place{Priority: t.at.Priority, Suffix: t.at.Suffix}
	}
	if found && t.tokens == 0 {
		if l.remove {
			l.tx.Set(keyWaitsRow(l.name, t.bucket.next(), t.key), nil)
		} else if l.token == 0 || t.bucket.next() < l.token {
			l.token = t.bucket.next()
		}
	}
	t.ready = found && t.tokens > 0
	return nil
}

// selectNext selects the next item of a key, or passes it if its TTL is over. It reports
// whether that was the last item of the pop.
func (l *looks) selectNext(t *turn) (done bool, err error) {
	row, err := l.snapshot.Get(l.queueTx.key(layout.SpaceKeyed, t.at))
	if err != nil {
		return false, err
	}
	if row == nil {
		return false, fmt.Errorf("damaged key %q: its first ready item is missing", t.key)
	}
	selected, passed := len(l.items), l.expired
	done, err = l.add(entry{place: t.at, value: row})
	if err != nil {
		return false, err
	}
	if len(l.items) == selected && done && l.expired == passed {
		return true, nil // it does not fit
	}
	if len(l.items) > selected {
		t.leases--
		if t.fence > 0 {
			l.items[selected].Envelope.KeyFence = t.fence
			if err := (fences{&l.queueRows}).keep(t.key, t.fence); err != nil {
				return false, err
			}
		}
		if t.tokens < math.MaxInt {
			now, err := l.now()
			if err != nil {
				return false, err
			}
			t.tokens--
			t.bucket.take(1, now)
		}
	}
	if err := l.advance(t); err != nil {
		return false, err
	}
	if l.remove && t.room() == 0 {
		l.queueTx.keys.of(t.key).full = true
	}
	return done, nil
}

// spend writes the tokens that the pop has taken.
func (l *looks) spend() error {
	if !l.remove {
		return nil
	}
	for key, t := range l.keys {
		if !t.bucket.used {
			continue
		}
		if err := (rates{&l.queueRows}).keep(key, &t.bucket); err != nil {
			return err
		}
	}
	return nil
}

// refilled looks at the keys that have got a token since they last waited for one.
func (l *looks) refilled() ([]*turn, error) {
	if !l.state.keysMayWait() {
		return nil, nil
	}
	now, err := l.now()
	if err != nil {
		return nil, err
	}
	keys, more, err := keyIndex{&l.queueRows}.waitsDue(now, l.remove)
	if err != nil {
		return nil, err
	}
	var ready []*turn
	for _, key := range keys {
		if l.keys[key] != nil {
			continue
		}
		t, err := l.lookAt(key)
		if err != nil {
			return nil, err
		}
		if t.ready {
			ready = append(ready, t)
			if l.remove {
				keyIndex{&l.queueRows}.find(t.at, key)
			}
		}
	}
	l.more = l.remove && more // others may come first
	return ready, nil
}

// nextToken is the time until a key that waits for a token has one, 0 if none waits. Keys
// that have one by now were looked at, or wait for none any more.
func (c *collector) nextToken() (time.Duration, error) {
	if !c.state.keysMayWait() {
		return 0, nil
	}
	now, err := c.now()
	if err != nil {
		return 0, err
	}
	prefix := layout.QueueRow(layout.SpaceKeyWaits, c.name)
	_, end := tuple.Range(prefix)
	rows, err := c.snapshot.Range(keyWaitsRow(c.name, now+1, ""), end, kv.RangeOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	due := c.token
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

// turns selects items in the order of the queue where items may have to wait for others of
// their key. It reads the items without a key and the rows of the keys in their common
// order.
type turns struct {
	looks
	plain source[entry]
	heads source[entry]
	moved []*turn // whose row was elsewhere, or whose item before was selected
}

func (c *collector) takeTurns() error {
	t := turns{looks: looks{collector: c, keys: make(map[string]*turn)}}
	t.plain.next = scanOf(c.name, c.front(), c.state, layout.SpaceReady, Min, AllPriorities, "").next
	heads := scanOf(c.name, c.front(), c.state, layout.SpaceKeyHead, Min, AllPriorities, "")
	t.heads.next = func(limit, maxBytes int) ([]entry, error) {
		entries, err := heads.next(limit, maxBytes)
		t.prefetch(entries)
		return entries, err
	}
	var err error
	if t.moved, err = t.refilled(); err != nil {
		return err
	}
	if err := c.untilDone(t.step); err != nil {
		return err
	}
	return t.spend()
}

// step looks at the next item or key and reports whether it was the last one.
func (t *turns) step() (done bool, err error) {
	limit := t.sel.Limit - len(t.items)
	plain, err := t.plain.first(limit, t.sel.MaxBytes)
	if err != nil {
		return false, err
	}
	head, err := t.heads.first(limit, t.sel.MaxBytes)
	if err != nil {
		return false, err
	}
	slices.SortFunc(t.moved, func(a, b *turn) int { return a.at.Compare(b.at) })
	switch {
	case len(t.moved) > 0 && before(t.moved[0].at, plain) && before(t.moved[0].at, head):
		next := t.moved[0]
		t.moved = t.moved[1:]
		return t.take(next)
	case head != nil && before(head.place, plain):
		return t.look(t.heads.take())
	case plain != nil:
		return t.add(t.plain.take())
	}
	return true, nil
}

// before reports whether a place is not behind an entry, or there is none.
func before(p layout.Place, e *entry) bool { return e == nil || p.Compare(e.place) <= 0 }

// look looks at the key of a row.
func (t *turns) look(head entry) (done bool, err error) {
	key := string(head.value)
	known := t.keys[key]
	next := known
	if known == nil {
		if next, err = t.lookAt(key); err != nil {
			return false, err
		}
	}
	if known == nil && next.ready && next.at == head.place {
		return t.take(next)
	}
	if known != nil && slices.Contains(t.moved, known) && known.at == head.place {
		return false, nil // the row is where it belongs
	}
	if t.remove {
		row := t.key(layout.SpaceKeyHead, head.place)
		t.tx.Conflict(row) // an item may come back to this place at the same time
		t.tx.Clear(row)
	}
	if known == nil && next.ready {
		t.moved = append(t.moved, next)
		if t.remove {
			t.tx.Set(t.key(layout.SpaceKeyHead, next.at), head.value)
		}
		return false, nil
	}
	return t.givesUp(), nil
}

// take selects the next item of a key.
func (t *turns) take(next *turn) (done bool, err error) {
	done, err = t.selectNext(next)
	if err == nil && !done && next.ready {
		t.moved = append(t.moved, next)
	}
	return done, err
}
