package reads

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// View is one state of the store, for the queries of a batch.
type View struct {
	*Lane
	Reader kv.Reader
	names  map[string][]string // of queues, by their beginning, as far as they were asked for
}
