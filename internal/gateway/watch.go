package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// watch streams the answers to GET requests as server-sent events: at first, and whenever
// they change.
func watch(g *Gateway, w http.ResponseWriter, r *http.Request, in *input) {
	paths := in.query["path"]
	if len(paths) == 0 || len(paths) > maxPaths {
		refusef(protocol.CodeBadRequest, "found %d parameters path: expected 1 to %d", len(paths), maxPaths).write(w)
		return
	}
	costs := make(map[string]int)
	for _, path := range paths {
		what, why := g.watchable(in.caller, path)
		if why != nil {
			why.write(w)
			return
		}
		costs[path] = what.cost()
	}
	leave, why := g.room.streams.enter(in.from)
	if why != nil {
		why.write(w)
		return
	}
	defer leave()
	watcher, why := in.caller.sampler.watch(costs, in.from)
	if why != nil {
		why.write(w)
		return
	}
	defer in.caller.sampler.remove(watcher)
	w.Header().Set("Content-Type", "text/event-stream")
	if err := g.streamTo(w, r, in.caller, watcher); err != nil {
		g.log.Debug("a stream ended", "error", err)
	}
}

// beat is the time between signs of life, by which the gateway notices that a page has gone.
const beat = 15 * time.Second

func (g *Gateway) streamTo(w http.ResponseWriter, r *http.Request, to *caller, from *watcher) error {
	control := http.NewResponseController(w)
	send := func(text []byte) error {
		if err := deadlines(control, writeLimit); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		return control.Flush()
	}
	if err := send([]byte(": the answers, and their changes\n\n")); err != nil {
		return err
	}
	alive := time.NewTicker(beat)
	defer alive.Stop()
	for {
		text := []byte(":\n\n")
		select {
		case <-from.more:
			if text = from.next(); text == nil {
				continue
			}
			notify(from.more) // there may be more
		case <-alive.C:
			if now, why := g.auth.authenticate(r); why != nil || now != to {
				return nil // the token is no longer the caller's
			}
		case <-r.Context().Done():
			return nil
		case <-g.running.Done():
			return nil
		}
		if err := send(text); err != nil {
			return err
		}
	}
}

// watchable returns the request that a path stands for.
func (g *Gateway) watchable(who *caller, path string) (*input, *refusal) {
	at, err := url.Parse(path)
	if err != nil || at.Host != "" || at.Scheme != "" || strings.Contains(path, "#") {
		return nil, refusef(protocol.CodeBadRequest, "path %q: expected one such as /v1/queues/jobs", path)
	}
	route, values, why := g.routes.find(http.MethodGet, at.EscapedPath())
	if why != nil {
		return nil, why
	}
	if why := who.refuses(route); why != nil {
		return nil, why
	}
	in := &input{gateway: g, caller: who, route: route, values: values, header: make(http.Header), changes: g.changes}
	if in.query, why = readQuery(route, &http.Request{URL: at}); why != nil {
		return nil, why
	}
	if len(in.query) == 0 && strings.Contains(path, "?") {
		// Otherwise one request could be watched under any number of paths.
		return nil, refusef(protocol.CodeBadRequest, "path %q: expected one without ?", path)
	}
	if route.stream != nil || in.wait() > 0 || in.query.Has("total") {
		return nil, refusef(protocol.CodeBadRequest, "path %q: expected one that has an answer at once, and reads little", path)
	}
	return in, nil
}

// cost is how many reads an answer takes, relative to a list.
func (in *input) cost() int {
	if in.route.name != "overview" {
		return 1
	}
	limit, why := in.limit(maxRows)
	if why != nil {
		return 1 // the answer is the refusal
	}
	return max(1, cmp.Or(limit, defaultRows)/2) // a row has two, and many are read together
}

// look returns the function that answers the requests that a caller watches.
func (g *Gateway) look(who *caller) func(ctx context.Context, path string) *answer {
	return func(ctx context.Context, path string) *answer {
		in, why := g.watchable(who, path)
		if why != nil {
			return why.answer()
		}
		in.ctx = ctx
		a, why := in.route.serve(in)
		if why != nil {
			return why.answer()
		}
		return a
	}
}

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
