package gateway

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"time"
)

// sampler reads the paths that open pages show, on behalf of all pages: each path twice a second, however many
// pages watch it. Pages get the changes. Without pages it does nothing.
//
// It reads pass by pass, in each pass a few paths of every stream. So streams with many paths, or with slow ones,
// do not keep others waiting.
type sampler struct {
	ctx  context.Context // ends it
	look func(ctx context.Context, path string) *answer
	wake chan struct{} // holds a token when a path is due

	mu      sync.Mutex
	samples map[string]*sample
	runs    bool
}

// sample is a path that is watched.
type sample struct {
	watchers map[*watcher]bool
	cost     int
	last     []byte // the last event; nil: no watcher has room for it
	due      time.Time
}

const (
	// sampleEvery is the time between two looks at a path, unless the path was read within half of it: a page shows
	// a change within a second.
	sampleEvery = 500 * time.Millisecond

	perPass = 4 // paths of a stream

	sampleReaders = 8
	sampleLimit   = 5 * time.Second

	// rest is how long the sampler leaves out a path whose answer no watcher has room for.
	rest = 10 * time.Second

	maxWatched = 2000 // different paths, weighted by cost; half of them for one address
)

func newSampler(ctx context.Context, look func(context.Context, string) *answer) *sampler {
	return &sampler{ctx: ctx, look: look, wake: make(chan struct{}, 1), samples: make(map[string]*sample)}
}

// watch begins to watch paths, which have a cost, until the watcher is removed.
func (s *sampler) watch(paths map[string]int, from source) (*watcher, *refusal) {
	w := newWatcher(from)
	s.mu.Lock()
	defer s.mu.Unlock()
	all, own, fresh := 0, 0, 0
	for path, one := range s.samples {
		all += one.cost
		if _, again := paths[path]; again || one.isOf(from) {
			own += one.cost
		}
	}
	for path, cost := range paths {
		if s.samples[path] == nil {
			fresh += cost
		}
	}
	switch {
	case all+fresh > maxWatched:
		return nil, busy("%d paths are watched, as many as this pqd takes: try again later", all)
	case own+fresh > maxWatched/2:
		return nil, busy("%d paths are watched from %s, as many as one address or tenant may: try again later", own+fresh, from.name())
	}
	for path, cost := range paths {
		one := s.samples[path]
		if one == nil {
			one = &sample{watchers: make(map[*watcher]bool), cost: cost}
			s.samples[strings.Clone(path)] = one // others may watch it longer than the request lasts whose part it is
		}
		one.watchers[w] = true
		if one.last == nil {
			one.due = time.Time{} // perhaps there is room now
			continue
		}
		w.add(path, one.last, len(one.last))
	}
	if s.runs {
		notify(s.wake)
	} else {
		s.runs = true
		go s.run()
	}
	return w, nil
}

// isOf reports whether a watcher from an address watches the path.
func (one *sample) isOf(from source) bool {
	for w := range one.watchers {
		if w.from == from {
			return true
		}
	}
	return false
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

// run makes passes as long as any path is watched.
func (s *sampler) run() {
	every := time.NewTicker(sampleEvery)
	defer every.Stop()
	for {
		for s.pass() {
		}
		select {
		case <-every.C:
		case <-s.wake:
		case <-s.ctx.Done():
			return
		}
		if s.idle() {
			return
		}
	}
}

// idle reports whether no path is watched. The next watcher then starts the sampler again.
func (s *sampler) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs = len(s.samples) > 0
	return !s.runs
}

// pass reads a few due paths of each stream, and reports whether more are due.
func (s *sampler) pass() (more bool) {
	now := time.Now()
	s.mu.Lock()
	var paths []string
	looks := make(map[*watcher]int)
	for path, one := range s.samples {
		if one.due.After(now) {
			continue
		}
		due := false
		for w := range one.watchers {
			if due = looks[w] < perPass; due {
				looks[w]++
				break
			}
		}
		if !due {
			more = true
			continue
		}
		one.due = now.Add(sampleEvery / 2)
		paths = append(paths, path)
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
	return more && s.ctx.Err() == nil
}

// saw sends the answer to the watchers of a path, if it is new.
func (s *sampler) saw(path string, a *answer) {
	event, size := []byte(nil), len(a.body)
	if size <= maxStreamBytes {
		event = eventOf(path, a)
		size = len(event)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.samples[path]
	if one == nil || event != nil && bytes.Equal(one.last, event) {
		return
	}
	one.last = nil
	for w := range one.watchers {
		if w.add(path, event, size) {
			one.last = event
		}
	}
	if one.last == nil {
		one.due = time.Now().Add(rest)
	}
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it knows already
	}
}
