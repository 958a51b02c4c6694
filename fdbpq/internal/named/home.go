package named

import (
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Home is where the rows of a queue's definitions are. A purge leaves them there; they go with the queue.
type Home struct {
	Queue string
	Born  int64  // generation at which the queue was made
	Kind  string // in the keys of sources; "": the keys have none
}

// Prefix is the prefix of the keys in a space.
func (h Home) Prefix(space string) []byte {
	prefix := layout.GenerationPrefix(space, h.Queue, h.Born)
	if h.Kind == "" {
		return prefix
	}
	return tuple.AppendString(prefix, h.Kind)
}

// Key is the key of a definition's row in a space.
func (h Home) Key(space, name string) []byte { return tuple.AppendString(h.Prefix(space), name) }

// ParseHome reads whose a row is. rest is the key behind the queue and its birth.
func ParseHome(space string, key []byte) (h Home, rest []byte, err error) {
	r := tuple.Read(key[len(layout.Row(space)):])
	h = Home{Queue: r.Text(), Born: r.Int()}
	return h, r.Rest(), r.Err()
}
