package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// sampler looks at what the open pages show, on behalf of all of them: at each path once a
// round, however many pages watch it. Pages get what has changed. Without pages it does
// nothing.
type sampler struct {
	ctx  context.Context // ends it
	look func(ctx context.Context, path string) *answer
	wake chan struct{} // there are paths that it has not looked at yet

	mu      sync.Mutex
	samples map[string]*sample
	runs    bool
}

// sample is a path that is watched.
type sample struct {
	watchers map[*watcher]bool
	last     []byte // the event for what was seen last; nil: nothing yet
}

// watcher is a page. It keeps the last event of each path, so a page that reads slowly
// misses states and holds up nothing.
type watcher struct {
	more chan struct{} // has a value when there may be events

	mu     sync.Mutex
	events map[string][]byte
}

const (
	// sampleEvery lies between rounds: a page shows a change within a second.
	sampleEvery = 500 * time.Millisecond

	sampleReaders = 8
	sampleLimit   = 5 * time.Second

	maxWatched = 1000 // different paths
	maxPaths   = 64   // of one page
)

func newSampler(ctx context.Context, look func(context.Context, string) *answer) *sampler {
	return &sampler{ctx: ctx, look: look, wake: make(chan struct{}, 1), samples: make(map[string]*sample)}
}

// watch begins to watch paths, until the watcher is removed.
func (s *sampler) watch(paths []string) (*watcher, *refusal) {
	w := &watcher{more: make(chan struct{}, 1), events: make(map[string][]byte)}
	s.mu.Lock()
	defer s.mu.Unlock()
	added := 0
	for _, path := range paths {
		if s.samples[path] == nil {
			added++
		}
	}
	if len(s.samples)+added > maxWatched {
		return nil, busy("%d paths are watched, as many as this gateway takes: try again later", len(s.samples))
	}
	for _, path := range paths {
		one := s.samples[path]
		if one == nil {
			one = &sample{watchers: make(map[*watcher]bool)}
			s.samples[path] = one
		}
		one.watchers[w] = true
		if one.last != nil {
			w.add(path, one.last)
		}
	}
	switch {
	case !s.runs:
		s.runs = true
		go s.run()
	case added > 0:
		notify(s.wake)
	}
	return w, nil
}

// remove ends watching.
func (s *sampler) remove(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, one := range s.samples {
		if delete(one.watchers, w); len(one.watchers) == 0 {
			delete(s.samples, path)
		}
	}
}

// run looks round by round, as long as anything is watched.
func (s *sampler) run() {
	for {
		s.round(func(*sample) bool { return true })
		next := time.NewTimer(sampleEvery)
		for waits := true; waits; {
			select {
			case <-next.C:
				waits = false
			case <-s.wake:
				s.round(func(one *sample) bool { return one.last == nil })
			case <-s.ctx.Done():
				next.Stop()
				return
			}
		}
		if s.idle() {
			return
		}
	}
}

// idle reports whether nothing is watched. Then the next watcher starts the sampler again.
func (s *sampler) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = len(s.samples) > 0
	return !s.runs
}

// round looks at some of the paths.
func (s *sampler) round(which func(*sample) bool) {
	s.mu.Lock()
	var paths []string
	for path, one := range s.samples {
		if which(one) {
			paths = append(paths, path)
		}
	}
	s.mu.Unlock()
	var readers sync.WaitGroup
	places := make(chan struct{}, sampleReaders)
	for _, path := range paths {
		places <- struct{}{}
		readers.Go(func() {
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(s.ctx, sampleLimit)
			defer cancel()
			s.saw(path, s.look(ctx, path))
		})
	}
	readers.Wait()
}

// saw tells the watchers of a path what was seen, if it is new.
func (s *sampler) saw(path string, a *answer) {
	event, err := json.Marshal(struct {
		Path   string          `json:"path"`
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	}{path, a.status(), a.body})
	if err != nil {
		event, _ = json.Marshal(map[string]any{"path": path, "status": protocol.CodeInternal, "body": err.Error()}) // strings have a form
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.samples[path]
	if one == nil || bytes.Equal(one.last, event) {
		return
	}
	one.last = event
	for w := range one.watchers {
		w.add(path, event)
	}
}

func (w *watcher) add(path string, event []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[path] = event
	notify(w.more)
}

// take returns the events since the last call.
func (w *watcher) take() (events [][]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, event := range w.events {
		events = append(events, event)
	}
	clear(w.events)
	return events
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it knows already
	}
}
