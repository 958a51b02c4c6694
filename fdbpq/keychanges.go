package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/internal/layout"

// keyChanges are the keys whose items a transaction has changed, in the order in which
// it did.
type keyChanges struct {
	all   []*keyChange
	byKey map[string]*keyChange
}

type keyChange struct {
	key     string
	added   []layout.Place // of items that became ready
	removed []layout.Place // of items that are not ready any more
	letGo   int            // leases that ended, less the leases that began
	full    bool           // it has all items that it may have now: no row has to lead pops to it
	placed  bool           // its row in the fair order is written
}

func (c *keyChanges) of(key string) *keyChange {
	change := c.byKey[key]
	if change == nil {
		if c.byKey == nil {
			c.byKey = make(map[string]*keyChange)
		}
		change = &keyChange{key: key}
		c.byKey[key] = change
		c.all = append(c.all, change)
	}
	return change
}
