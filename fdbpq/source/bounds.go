package source

import (
	"errors"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
)

// The bounds of sources.
const (
	MaxName       = named.MaxName
	MaxCount      = 100  // of a queue
	MaxStoreCount = 1000 // of a store
	MaxBatch      = 1000
	MaxFilters    = 16
	MaxPage       = 100

	maxText  = 255 // of a remote, a stream, a filter, or a value
	keptText = 300 // of why a source fails or has stopped
	maxMap   = 4 << 10
)

// ErrTooMany: there are as many sources as there may be.
var ErrTooMany = errors.New("too many sources")

var bounds = named.Bounds{Space: layout.SpaceSource, Queue: MaxCount, Store: MaxStoreCount, TooMany: ErrTooMany}
