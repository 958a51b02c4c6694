package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/internal/layout"

// NewItemBytes is what an item counts in a [Size] once it is in its queue, with the id that the queue then remembers. [ItemBytes] come on top.
func NewItemBytes(item *NewItem) int {
	e := layout.Envelope{Unique: item.claims(), Key: item.Key}
	n := item.size() + e.WithOverhead()
	if item.MsgID != "" {
		n += RememberedBytes
	}
	return int(n)
}

// ImportBytes is what an imported item counts in a [Size] once it is in its queue. [ItemBytes] come on top.
func ImportBytes(item *Import) int {
	e := layout.Envelope{Unique: item.Unique, Key: item.Key, Dead: item.died()}
	e.Attempts = string(packAttempts(item.Attempts, MaxAttempts))
	return len(item.Headers) + len(item.Payload) + int(e.WithOverhead())
}
