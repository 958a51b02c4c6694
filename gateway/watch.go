package gateway

import (
	"context"
	"net/http"
	"net/url"
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
	for _, path := range paths {
		if _, why := g.watchable(path); why != nil {
			why.write(w)
			return
		}
	}
	leave, why := take(g.room.streams, "streams")
	if why != nil {
		why.write(w)
		return
	}
	defer leave()
	watcher, why := g.sampler.watch(paths)
	if why != nil {
		why.write(w)
		return
	}
	defer g.sampler.remove(watcher)
	w.Header().Set("Content-Type", "text/event-stream")
	if err := g.streamTo(w, r, watcher); err != nil {
		g.log.Debug("a stream ended", "error", err)
	}
}

// beat lies between signs of life, by which the gateway notices that a page has gone.
const beat = 15 * time.Second

func (g *Gateway) streamTo(w http.ResponseWriter, r *http.Request, from *watcher) error {
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
		var text []byte
		select {
		case <-from.more:
			for _, event := range from.take() {
				text = append(append(append(text, "data: "...), event...), "\n\n"...)
			}
		case <-alive.C:
			text = []byte(":\n\n")
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
func (g *Gateway) watchable(path string) (*input, *refusal) {
	at, err := url.Parse(path)
	if err != nil || at.Host != "" || at.Scheme != "" {
		return nil, refusef(protocol.CodeBadRequest, "path %q: expected one such as /v1/queues/jobs", path)
	}
	route, values, why := find(http.MethodGet, at.EscapedPath())
	if why != nil {
		return nil, why
	}
	in := &input{gateway: g, route: route, values: values, header: make(http.Header)}
	if in.query, why = readQuery(route, &http.Request{URL: at}); why != nil {
		return nil, why
	}
	if route.stream != nil || in.wait() > 0 {
		return nil, refusef(protocol.CodeBadRequest, "path %q: expected one that has an answer at once", path)
	}
	return in, nil
}

// look returns the answer to a request that is watched.
func (g *Gateway) look(ctx context.Context, path string) *answer {
	in, why := g.watchable(path)
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
