package schedule

import (
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// home is where the rows of a queue's schedules are. A purge leaves them there; they
// go with the queue.
type home struct {
	queue string
	born  int64
}

func (h home) prefix(space string) []byte {
	return layout.GenerationPrefix(space, h.queue, h.born)
}

func (h home) key(space, name string) []byte {
	return tuple.AppendString(h.prefix(space), name)
}
