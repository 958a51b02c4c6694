package fdbpq

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Why does nothing move? Rows say what keeps items from being handed out: a pause, a rate, a key, a lease,
// a delay, a link. They do not say who asks for items, and what room the store has.

// Reasons that no pop has.
const (
	ReasonFlows Reason = "flows"      // nothing keeps items from being handed out
	ReasonHeld  Reason = "held"       // links hold all that are leased
	ReasonDying Reason = "store_full" // what is left is dead, and waits for room in the store to become dead letters
)

// Held counts the held items of a queue. The package that holds them fills it, such as link.
type Held struct {
	Items int64
	Link  string    // that holds the most items, if any are held
	Since time.Time // by the wall clock: when its batch was made
}

// Explanation is what keeps the items of a queue, or a single item, from being handed out.
type Explanation struct {
	Cause    Reason
	WaitsFor WaitsFor   // of ReasonBlocked: what the first ready item waits for
	Key      string     // whose item that is
	Item     *ID        // whose lease or delay is meant, or that comes first, if it is known
	Holder   string     // of that lease: what its holder calls itself
	Since    time.Time  // by this process's wall clock: when that lease, or the batch of the link, began
	Until    time.Time  // when the lease or the delay ends, or a rate allows a delivery
	AtLeast  bool       // not all leases or delays were looked at: one may be older, or end sooner
	Link     string     // of ReasonHeld: that holds the item, or most of them
	Failed   FailedItem // of ExplainItem: what the item tells of its failures
	Refuses  error      // the reason why the queue takes no item, however small; nil where a small item has room
}

// The bounds of what an explanation reads.
const (
	explainKeys   = 16 // ready items among which it looks for a key that waits
	explainLeases = 8  // leases of that key
	explainItems  = 32 // delayed items, or leased items among which it looks for the holder of the key
	explainBytes  = 64 << 10
)

// Explain says why no item of the queue is handed out, whatever its priority. It belongs to the transaction of Inspect, and
// takes what was read there beside it. Of ReasonFlows the cause may be that no consumer asks.
func (i *Inspection) Explain(oldest OldestLease, held Held) (e Explanation, err error) {
	x := i.queue.explains
	switch {
	case i.Paused:
		e.Cause = ReasonPaused
	case i.Next != nil:
		e, err = x.rate()
	case i.Ready > 0 && x.state.takesTurns():
		e, err = x.blocked(oldest.ofKeys)
	}
	switch {
	case err != nil || e.Cause != "": // otherwise what is ready has outlived its TTL
	case i.Leased > 0:
		e = i.Leases(oldest, held)
	case i.Delayed > 0:
		e, err = x.delayed(i.Delayed)
	case i.Ready > 0 && x.state.config.DeadLetterExpired && x.store.room.full() != nil:
		e.Cause = ReasonDying
	default:
		e.Cause = ReasonEmpty
	}
	e.Refuses = x.capacity.refuses(i.Counts)
	return e, err
}

// ExplainItem says why an item that Get has returned in this transaction is not handed out. Of a held item it does not say since
// when: the holder knows that.
func (q Queue) ExplainItem(r kv.Reader, item *StoredItem) (e Explanation, err error) {
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return e, err
	}
	x := qtx.explains
	if e, err = x.item(r, item); err == nil {
		e.Failed, err = failedOf(x.queueRows, item)
	}
	return e, err
}

// item is ExplainItem without the failures.
func (x explains) item(r kv.Reader, item *StoredItem) (e Explanation, err error) {
	own := item.ID
	switch {
	case item.Held:
		return Explanation{Cause: ReasonHeld, Item: &own}, nil
	case item.Dying:
		return Explanation{Cause: ReasonDying, Item: &own, Since: x.store.Display(item.Since)}, nil
	case item.State == StateLeased:
		return x.lease(own, item.Holder, item.Since, item.Due), nil
	case item.State == StateDelayed:
		return Explanation{Cause: ReasonDelayed, Item: &own, Until: x.store.Display(item.Due)}, nil
	case item.WaitsFor == "" || item.WaitsFor == WaitsForRate:
		return x.rate()
	case x.state.paused:
		return Explanation{Cause: ReasonPaused}, nil
	}
	waits, err := x.keyInfos.keyWaitsFor(item.Key)
	if err != nil {
		return e, err
	}
	if waits == item.WaitsFor {
		return x.ofKey(item.Key, waits, item.Priority, nil)
	}
	// Its key is free, or waits for a token: so does the item that goes before it.
	e = Explanation{Cause: ReasonBlocked, WaitsFor: item.WaitsFor, Key: item.Key}
	first, ok, err := x.keyIndex.first(r, item.Key)
	if err != nil || !ok {
		return e, err
	}
	row, err := r.Get(x.key(layout.SpaceKeyed, first))
	if err != nil || row == nil {
		return e, err
	}
	l, err := layout.ParseItem(layout.SpaceKeyed, row, first)
	if err == nil {
		before := ID{l.HomeOf(first)}
		e.Item = &before
	}
	return e, err
}

// Offers reports whether a pop from one of these bands finds an item, whatever the rate of the queue allows.
func (q Queue) Offers(r kv.Reader, bands []Band) (bool, error) {
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return false, err
	}
	for i := range bands {
		found := collector{queueRows: &qtx.queueRows, sel: Selection{End: Min, Band: &bands[i], Limit: 1, MaxBytes: 1}}
		if err := found.run(); err != nil || len(found.items) > 0 {
			return len(found.items) > 0, err
		}
	}
	return false, nil
}

// explains is what a queue says about items that are not handed out.
type explains struct{ *queueRows }

// rate says whether the rate of the queue allows no delivery now.
func (x explains) rate() (e Explanation, err error) {
	e.Cause = ReasonFlows
	until, err := x.rates.spent(x.state.config.buckets())
	if err == nil && until > 0 {
		e.Cause, e.Until = ReasonRate, x.store.Display(until)
	}
	return e, err
}

// blocked says what the first ready item waits for, where no item is handed out. Its result is empty where all ready items
// have outlived their TTL.
func (x explains) blocked(holders map[string]*layout.Item) (e Explanation, err error) {
	now, err := x.now()
	if err != nil {
		return e, err
	}
	ready := scanOf(x.name, x.snapshot, x.state, layout.SpaceKeyed, Min, AllPriorities, "")
	first, err := ready.next(explainKeys, explainBytes)
	if err != nil {
		return e, err
	}
	seen := make(map[string]bool)
	for _, at := range first {
		l, err := layout.ParseItem(layout.SpaceKeyed, at.value, at.place)
		if err != nil {
			return e, err
		}
		if seen[l.Key] || l.Expires != 0 && l.Expires <= now {
			continue
		}
		seen[l.Key] = true
		waits, err := x.keyInfos.keyWaitsFor(l.Key)
		if err != nil {
			return e, err
		}
		if waits != "" {
			return x.ofKey(l.Key, waits, l.Place.Priority, holders[l.Key])
		}
	}
	more := len(seen) > 0
	if !more {
		more, err = heads{ready}.any()
	}
	if more {
		e.Cause = ReasonBlocked // which of many keys waits was not found
	}
	return e, err
}

// ofKey says who keeps a key from getting an item. priority is the priority of one of its items, and often of the others. l is
// the item that has held the key for longest, if that is known.
func (x explains) ofKey(key string, waits WaitsFor, priority int64, l *layout.Item) (e Explanation, err error) {
	e = Explanation{Cause: ReasonBlocked, WaitsFor: waits, Key: key}
	switch waits {
	case WaitsForKeyOrder, WaitsForKeyLimit:
		if l == nil {
			l, err = x.holder(key, priority)
		}
		if err != nil || l == nil {
			return e, err
		}
		id := idOf(l)
		e.Item, e.Holder = &id, l.Holder
		if !l.Held() {
			e.Until = x.store.Display(l.Due)
		}
		if l.State == layout.StateLeased && !l.Held() {
			e.Since = x.store.Display(l.Since)
		}
	case WaitsForKeyRate, WaitsForKeyCost:
		of, err := x.settings.of(x.snapshot, key)
		if err != nil {
			return e, err
		}
		until, err := x.rates.spent(of.buckets(key, &x.state.config))
		if err == nil && until > 0 { // otherwise there is no room for what it would owe
			e.Until = x.store.Display(until)
		}
		return e, err
	}
	return e, nil
}

// holder finds the item that holds a key for longest, among a few leased items; nil if it is not among them.
func (x explains) holder(key string, priority int64) (*layout.Item, error) {
	begin, end := x.keyLimits.rows(key)
	held, err := x.snapshot.Range(begin, end, kv.RangeOptions{Limit: explainLeases})
	if err != nil {
		return nil, err
	}
	prefix := len(x.rowsOfKey(layout.SpaceKeyHeld, key))
	spaces := [...]string{layout.SpaceLeased, layout.SpaceDelayed} // in order, an item keeps its key while it waits between two leases
	var places []layout.Place
	var rows [][]byte
	for _, row := range held {
		p := layout.Place{Priority: priority, Suffix: string(row.Key[prefix:])}
		places = append(places, p)
		for _, space := range spaces {
			rows = append(rows, p.Append(x.prefix(space)))
		}
	}
	values, err := x.snapshot.GetAll(rows)
	if err != nil {
		return nil, err
	}
	var first *layout.Item
	for i, value := range values {
		if value == nil {
			continue
		}
		l, err := layout.ParseItem(spaces[i%len(spaces)], value, places[i/len(spaces)])
		if err != nil {
			return nil, err
		}
		first = longer(first, l)
	}
	if first != nil {
		return first, nil
	}
	leased, err := scanOf(x.name, x.snapshot, x.state, layout.SpaceLeased, Min, AllPriorities, "").next(explainItems, explainBytes)
	for _, at := range leased {
		l, err := layout.ParseItem(layout.SpaceLeased, at.value, at.place)
		if err != nil {
			return nil, err
		}
		if l.Key == key && !l.Dying() {
			first = longer(first, l)
		}
	}
	return first, err
}

// Leases says who has the leased items. Its result is empty where no item is leased.
func (i *Inspection) Leases(oldest OldestLease, held Held) Explanation {
	x := i.queue.explains
	if i.Leased == 0 {
		return Explanation{}
	}
	if held.Items >= i.Leased {
		return Explanation{Cause: ReasonHeld, Link: held.Link, Since: held.Since}
	}
	if oldest.Age == 0 && oldest.Dying != nil {
		return Explanation{Cause: ReasonDying, Item: oldest.Dying, AtLeast: oldest.AtLeast}
	}
	if oldest.Age == 0 {
		return Explanation{Cause: ReasonLeased, AtLeast: true}
	}
	e := x.lease(oldest.Item, oldest.Holder, oldest.Since, oldest.Due)
	e.AtLeast = oldest.AtLeast
	return e
}

func (x explains) lease(item ID, holder string, since, due int64) Explanation {
	return Explanation{Cause: ReasonLeased, Item: &item, Holder: holder, Since: x.store.Display(since), Until: x.store.Display(due)}
}

// delayed says which of the first delayed items becomes ready first.
func (x explains) delayed(n int64) (e Explanation, err error) {
	e.Cause = ReasonDelayed
	items, err := scanOf(x.name, x.snapshot, x.state, layout.SpaceDelayed, Min, AllPriorities, "").next(explainItems, explainBytes)
	due := int64(0)
	for _, at := range items {
		l, err := layout.ParseItem(layout.SpaceDelayed, at.value, at.place)
		if err != nil {
			return e, err
		}
		if e.Item == nil || l.Due < due {
			id := idOf(l)
			e.Item, due = &id, l.Due
		}
	}
	if e.Item != nil {
		e.Until = x.store.Display(due)
	}
	e.AtLeast = int64(len(items)) < n
	return e, err
}

// reasons completes the answers of pops and peeks: with the number of ready items, or with the
// reason why no item was found.
type reasons struct{ *queueRows }

// complete sets Ready or Reason, of a pop or a peek from a band, from the queue's counters.
func (rs reasons) complete(popped *Popped, band Band) error {
	r, s := rs.snapshot, rs.state
	if len(popped.Items) > 0 {
		ready, err := r.Get(layout.CounterKey(rs.name, s.generation, layout.CounterReady))
		popped.Ready = max(0, int64(kv.DecodeInteger(ready))+rs.tally.Ready)
		return err
	}
	n, err := countsOf(rs.name, r, s.generation)
	n = n.with(&rs.tally)
	switch {
	case err != nil:
	case n.Ready > 0:
		return rs.someReady(popped, n.Ready, band)
	case n.Leased > 0:
		popped.Reason = ReasonLeased
	case n.Delayed > 0:
		popped.Reason = ReasonDelayed
	default:
		popped.Reason = ReasonEmpty
	}
	return err
}

// someReady sets the reason why a pop or a peek from a band gets no item of a queue with n ready items.
func (rs reasons) someReady(popped *Popped, n int64, band Band) error {
	until, err := rs.rates.spent(rs.state.config.buckets())
	if err != nil || until > 0 {
		popped.Reason = ReasonRate
		return err
	}
	if rs.state.takesTurns() {
		popped.Reason = ReasonBlocked
		return nil
	}
	popped.Reason = ReasonEmpty // they are past their TTL
	if band == AllPriorities {
		return nil
	}
	inside, err := readyItems(rs.name, rs.snapshot, rs.state, Min, band, rs.state.config.Ties)(1, 1)
	if err == nil && len(inside) == 0 {
		popped.Reason, popped.Ready = ReasonBand, n
	}
	return err
}

// completeLater completes a pop that gets no item, and retries after a time if a rate is the reason.
func (rs reasons) completeLater(popped *Popped, band Band, retry time.Duration) error {
	err := rs.complete(popped, band)
	if popped.Reason == ReasonRate {
		popped.Retry = retry
	}
	return err
}
