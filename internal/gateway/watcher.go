package gateway

import (
	"encoding/json"
	"sync"

	"github.com/pqbridge/pqbridge/protocol"
)

// watcher is a stream. It keeps the last event of each path, so a page that reads slowly misses states and delays
// nobody.
type watcher struct {
	from source
	more chan struct{} // has a value when there may be events

	mu     sync.Mutex
	events map[string][]byte // that were not taken yet
	sizes  map[string]int    // of the last event of each path; tooMuch: it did not fit
	bytes  int               // of all these
}

const (
	maxPaths = 64 // of one stream

	// maxStreamBytes bounds the last answers to all paths of a stream. Pages have some ten thousand bytes; a larger
	// answer can be asked for without a stream.
	maxStreamBytes = 256 << 10

	tooMuch = -1
)

func newWatcher(from source) *watcher {
	return &watcher{from: from, more: make(chan struct{}, 1), events: make(map[string][]byte), sizes: make(map[string]int)}
}

// add puts an event into the stream, or the notice that there is no room for it, and reports whether there is. An
// event that is too large for every stream may be nil.
func (w *watcher) add(path string, event []byte, size int) (fits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.sizes[path]
	w.bytes -= max(0, before)
	if fits = w.bytes+size <= maxStreamBytes; !fits {
		w.sizes[path] = tooMuch
		if before == tooMuch {
			return false // the stream has the notice already
		}
		event = eventOf(path, refusef(protocol.CodeTooLarge, "the answer has %d bytes, and those of a stream may have %d together: ask for it without a stream", size, maxStreamBytes).answer())
	} else {
		w.sizes[path] = size
		w.bytes += size
	}
	w.events[path] = event
	notify(w.more)
	return fits
}

// next returns an event that was not taken yet, nil if there is none. A stream holds one at a
// time while it writes.
func (w *watcher) next() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, event := range w.events {
		delete(w.events, path)
		return event
	}
	return nil
}

// eventOf returns a server-sent event.
func eventOf(path string, a *answer) []byte {
	text, err := protocol.Marshal(struct {
		Path   string          `json:"path"`
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	}{path, a.status(), a.body})
	if err != nil {
		return eventOf(path, refusef(protocol.CodeInternal, "%s", err).answer())
	}
	return append(append([]byte("data: "), text...), "\n\n"...)
}
