package peers

import (
	"slices"
	"time"
)

// line is the order in which bridges pop a queue. A bridge stands in it once, and
// memory bounds the bridges that are heard. While turn is not nil, this bridge is in it.
type line struct {
	until time.Duration // store time; over then
	ids   []string      // of the bridges that want to pop, in the order of their words
	turn  chan struct{} // closed when this bridge is the first; nil while it is not in the line
}

// join puts a bridge at the end of the line.
func (l *line) join(id string) { l.ids = append(l.ids, id) }

// leave takes a bridge out of the line.
func (l *line) leave(id string) {
	if i := slices.Index(l.ids, id); i >= 0 {
		l.ids = slices.Delete(l.ids, i, i+1)
	}
}

// skipTo removes the bridges before this one, which seem to have gone.
func (l *line) skipTo(id string) {
	for len(l.ids) > 0 && l.ids[0] != id {
		l.ids = slices.Delete(l.ids, 0, 1)
	}
}

// advance closes turn when this bridge has become the first.
func (l *line) advance(id string) {
	if l.turn != nil && l.ids[0] == id {
		select {
		case <-l.turn:
		default:
			close(l.turn)
		}
	}
}
