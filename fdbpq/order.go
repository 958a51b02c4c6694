package fdbpq

import "slices"

// run collects the items of the selection in the order of the queue: by priority, by turns of keys, or by
// fair turns.
func (c *collector) run() (err error) {
	var next nextEntries
	switch {
	case c.ahead != nil:
		next = c.ahead.next
	case c.state.fairBuilt && c.state.keyed:
		c.token, err = takeFairTurns(c.visits())
		return err
	case c.state.takesTurns():
		c.token, err = takeTurns(c.visits())
		return err
	default:
		next = readyItems(c.name, c.front(c.state), c.state, c.sel.End, *c.sel.Band, c.state.config.Ties)
	}
	for len(c.items) < c.sel.Limit {
		entries, err := next(c.sel.Limit-len(c.items), c.sel.MaxBytes)
		if err != nil || len(entries) == 0 {
			return err
		}
		c.items = slices.Grow(c.items, len(entries))
		for _, entry := range entries {
			_, done, err := c.add(entry, 0)
			if err != nil || done {
				return err
			}
		}
	}
	return nil
}

// visits are the visits of keys for the collector, before the first one.
func (c *collector) visits() keyVisits {
	return keyVisits{
		queueRows: c.queueRows, basket: c, remove: c.removes(),
		limit: c.sel.Limit, maxBytes: c.sel.MaxBytes, keys: make(map[string]*turn),
	}
}
