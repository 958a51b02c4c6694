package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// looks counts how often a sampler looks, and answers what it is told to.
type looks struct {
	mu    sync.Mutex
	count map[string]int
	body  map[string]string
}

func (l *looks) look(_ context.Context, path string) *answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[path]++
	return &answer{body: []byte(l.body[path])}
}

func (l *looks) set(path, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.body[path] = body
}

// take returns the counts since the last call.
func (l *looks) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer clear(l.count)
	return fmt.Sprint(l.count)
}

func texts(w *watcher) (all []string) {
	for _, event := range w.take() {
		all = append(all, string(event))
	}
	slices.Sort(all)
	return all
}

// However many pages watch a path, the sampler looks at it once a round; pages get what has
// changed; without pages it looks at nothing.
func TestSampler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &looks{count: make(map[string]int), body: map[string]string{"a": "1", "b": `{"x":1}`}}
		ctx, cancel := context.WithCancel(t.Context())
		s := newSampler(ctx, l.look)
		first, why := s.watch([]string{"a", "b"})
		if why != nil {
			t.Fatal(why)
		}
		synctest.Wait()
		if got := texts(first); !slices.Equal(got, []string{`{"path":"a","status":200,"body":1}`, `{"path":"b","status":200,"body":{"x":1}}`}) {
			t.Errorf("%q", got)
		}
		var others []*watcher
		for range 20 {
			w, why := s.watch([]string{"a"})
			if why != nil {
				t.Fatal(why)
			}
			others = append(others, w)
		}
		if got := texts(others[19]); len(got) != 1 {
			t.Errorf("a page that opens later sees %q, expected what is known", got)
		}
		l.take()
		tick := time.NewTimer(10*sampleEvery + sampleEvery/2)
		<-tick.C
		if got := l.take(); got != "map[a:10 b:10]" {
			t.Errorf("21 pages in 10 rounds: looked %s times", got)
		}
		if got := texts(first); got != nil {
			t.Errorf("nothing has changed, and the page got %q", got)
		}
		l.set("a", "2")
		<-time.After(sampleEvery)
		l.set("a", "3")
		<-time.After(sampleEvery)
		if got := texts(first); !slices.Equal(got, []string{`{"path":"a","status":200,"body":3}`}) {
			t.Errorf("a page that reads late got %q, expected the last state", got)
		}

		// A new path is looked at at once, and the known ones wait for their round.
		l.take()
		late, why := s.watch([]string{"c", "a"})
		if why != nil {
			t.Fatal(why)
		}
		synctest.Wait()
		if got := l.take(); got != "map[c:1]" {
			t.Errorf("looked %s times", got)
		}
		if got := texts(late); len(got) != 2 || !strings.Contains(strings.Join(got, " "), `"status":500`) {
			t.Errorf("an answer without JSON: %q", got)
		}

		for _, w := range append(others, first, late) {
			s.remove(w)
		}
		<-time.After(sampleEvery)
		l.take()
		<-time.After(time.Hour)
		if got := l.take(); got != "map[]" {
			t.Errorf("without pages it looked %s times", got)
		}
		s.mu.Lock()
		if s.runs {
			t.Error("without pages it still runs")
		}
		s.mu.Unlock()
		again, why := s.watch([]string{"b"})
		if why != nil {
			t.Fatal(why)
		}
		synctest.Wait()
		if got := texts(again); len(got) != 1 {
			t.Errorf("a page after a pause got %q", got)
		}
		cancel()
		synctest.Wait()
	})
}

// Pages together watch a bounded number of paths.
func TestTooManyPaths(t *testing.T) {
	t.Parallel()
	l := &looks{count: make(map[string]int), body: make(map[string]string)}
	s := newSampler(t.Context(), l.look)
	s.runs = true // it need not look
	for i := range maxWatched {
		if _, why := s.watch([]string{fmt.Sprint(i)}); why != nil {
			t.Fatal(why)
		}
	}
	known, why := s.watch([]string{"0", "1"})
	if why != nil {
		t.Fatalf("known paths: %+v", why)
	}
	if _, why := s.watch([]string{"0", "new"}); why == nil || why.Code != 429 {
		t.Errorf("a path too many: %+v", why)
	}
	s.remove(known)
	if len(s.samples) != maxWatched {
		t.Errorf("%d paths, expected that other pages still watch theirs", len(s.samples))
	}
}
