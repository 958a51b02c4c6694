package fdbpq

import "slices"

// run collects the items of the selection in the order of the queue: by priority, by turns of keys, or by fair turns.
func (c *collector) run() error {
	var next nextEntries
	switch {
	case c.ahead != nil:
		next = c.ahead.next
	case c.state.fairBuilt && c.state.keyed:
		return c.takeFairTurns()
	case c.state.takesTurns():
		return c.takeTurns()
	default:
		next = readyItems(c.name, c.front(), c.state, c.sel.End, *c.sel.Band, c.state.config.Ties)
	}
	for len(c.items) < c.sel.Limit {
		entries, err := next(c.sel.Limit-len(c.items), c.sel.MaxBytes)
		if err != nil || len(entries) == 0 {
			return err
		}
		c.items = slices.Grow(c.items, len(entries))
		for _, entry := range entries {
			done, err := c.add(entry)
			if err != nil || done {
				return err
			}
		}
	}
	return nil
}
