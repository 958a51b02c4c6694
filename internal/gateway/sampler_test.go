package gateway

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
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
	for event := w.next(); event != nil; event = w.next() {
		text, framed := strings.CutPrefix(string(event), "data: ")
		text, ended := strings.CutSuffix(text, "\n\n")
		if !framed || !ended {
			panic("no server-sent event: " + string(event))
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// once are paths that cost one.
func once(paths ...string) map[string]int {
	costs := make(map[string]int)
	for _, path := range paths {
		costs[path] = 1
	}
	return costs
}

func many(prefix string, n int) map[string]int {
	costs := make(map[string]int)
	for i := range n {
		costs[prefix+strconv.Itoa(i)] = 1
	}
	return costs
}

// from is an address of tests.
func from(last byte) source {
	return source{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, last}), 32)}
}

// A watched path outlives the request whose part it is, and keeps nothing else of it.
func TestWatchedPathIsACopy(t *testing.T) {
	t.Parallel()
	s := newSampler(t.Context(), (&looks{count: make(map[string]int)}).look)
	query := "path=/v1/queues&path=" + strings.Repeat("x", 100)
	path := query[5:15]
	w, why := s.watch(once(path), from(1))
	if why != nil {
		t.Fatal(why)
	}
	defer s.remove(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	for known := range s.samples {
		if known != path || unsafe.StringData(known) == unsafe.StringData(path) {
			t.Errorf("%q is watched, expected a copy of %q", known, path)
		}
	}
}

// However many pages watch a path, the sampler looks at it twice a second; pages get what has
// changed; without pages it looks at nothing.
func TestSampler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &looks{count: make(map[string]int), body: map[string]string{"a": "1", "b": `{"x":1}`}}
		ctx, cancel := context.WithCancel(t.Context())
		s := newSampler(ctx, l.look)
		first, why := s.watch(once("a", "b"), from(1))
		if why != nil {
			t.Fatal(why)
		}
		synctest.Wait()
		if got := texts(first); !slices.Equal(got, []string{`{"path":"a","status":200,"body":1}`, `{"path":"b","status":200,"body":{"x":1}}`}) {
			t.Errorf("%q", got)
		}
		var others []*watcher
		for range 20 {
			w, why := s.watch(once("a"), from(1))
			if why != nil {
				t.Fatal(why)
			}
			others = append(others, w)
		}
		if got := texts(others[19]); len(got) != 1 {
			t.Errorf("a page that opens later sees %q, expected what is known", got)
		}
		l.take()
		tick := time.NewTimer(10*sampleEvery + sampleEvery/4)
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
		late, why := s.watch(once("c", "a"), from(1))
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
		again, why := s.watch(once("b"), from(1))
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

// Pages together watch a bounded number of paths, and the pages of one address half as many.
func TestTooManyPaths(t *testing.T) {
	t.Parallel()
	l := &looks{count: make(map[string]int), body: make(map[string]string)}
	s := newSampler(t.Context(), l.look)
	s.runs = true // it need not look
	watch := func(who byte, costs map[string]int, text string) *watcher {
		t.Helper()
		w, why := s.watch(costs, from(who))
		if (why != nil) != (text != "") || why != nil && (why.Code != 429 || !strings.Contains(why.Description, text)) {
			t.Fatalf("%+v, expected %q", why, text)
		}
		return w
	}
	watch(1, many("", maxWatched/2-10), "")
	known := watch(1, once("0", "1"), "")
	dear := watch(1, map[string]int{"dear": 10}, "")
	watch(1, once("0", "new"), "1001 paths are watched from 192.0.2.1")
	watch(1, map[string]int{"dear": 10, "0": 1}, "")
	other := watch(2, once("0", "new"), "") // others have room
	watch(1, once("new"), "one address")    // also where they watch
	s.remove(dear)
	if s.remove(known); len(s.samples) != maxWatched/2-10+2 {
		t.Errorf("%d paths, expected that other pages still watch theirs", len(s.samples))
	}
	watch(2, many("of 2: ", maxWatched/2-2), "")
	watch(3, once("c"), "")
	watch(3, once("d"), "as many as this pqd takes")
	s.remove(other)
	watch(3, once("d"), "")
}

// heldBytes returns the bytes of all events that a sampler and its watchers keep.
func (s *sampler) heldBytes() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[*byte]bool)
	hold := func(event []byte) {
		if len(event) > 0 && !seen[&event[0]] {
			seen[&event[0]] = true
			n += len(event)
		}
	}
	for _, one := range s.samples {
		hold(one.last)
		for w := range one.watchers {
			w.mu.Lock()
			for _, event := range w.events {
				hold(event)
			}
			w.mu.Unlock()
		}
	}
	return n
}

// Streams with many large answers that nobody reads hold a bounded number of bytes. They are
// told which ones they do not get, once, and others get theirs in time.
func TestLargeAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const streams, paths, size = 4, 20, 100 << 10
		l := &looks{count: make(map[string]int), body: make(map[string]string)}
		ctx, cancel := context.WithCancel(t.Context())
		s := newSampler(ctx, l.look)
		var greedy []*watcher
		for i := range streams {
			var own []string
			for j := range paths {
				path := fmt.Sprintf("large %d %d", i, j)
				l.set(path, `"`+strings.Repeat("x", size)+`"`)
				own = append(own, path)
			}
			own = append(own, fmt.Sprint("huge ", i))
			l.set(own[paths], `"`+strings.Repeat("x", 2*maxStreamBytes)+`"`)
			w, why := s.watch(once(own...), from(1))
			if why != nil {
				t.Fatal(why)
			}
			greedy = append(greedy, w)
		}
		l.set("small", "0")
		page, why := s.watch(once("small"), from(1))
		if why != nil {
			t.Fatal(why)
		}
		for round := range 20 {
			<-time.After(sampleEvery)
			synctest.Wait()
			// The answers that fit, and 300 bytes for each refusal.
			if n, most := s.heldBytes(), streams*(maxStreamBytes+paths*300); n > most {
				t.Fatalf("round %d: %d bytes are held, expected up to %d", round, n, most)
			}
			if got := texts(page); !slices.Equal(got, []string{fmt.Sprintf(`{"path":"small","status":200,"body":%d}`, round)}) {
				t.Fatalf("round %d: another page got %q", round, got)
			}
			l.set("small", fmt.Sprint(round+1))
		}
		l.mu.Lock()
		if n := l.count["huge 0"]; n > 3 {
			t.Errorf("looked %d times in 10 s at an answer for which there is no room", n)
		}
		l.mu.Unlock()
		whole, refused := 0, 0
		for _, text := range texts(greedy[0]) {
			switch {
			case strings.Contains(text, `"status":200`):
				whole++
			case strings.Contains(text, `"status":413`) && strings.Contains(text, "those of a stream may have 262144 together"):
				refused++
			}
		}
		if whole != maxStreamBytes/size || whole+refused != paths+1 {
			t.Errorf("%d answers and %d refusals of %d paths", whole, refused, paths+1)
		}

		// When an answer becomes small, its stream gets it.
		l.set("huge 0", "1")
		<-time.After(rest + sampleEvery)
		synctest.Wait()
		if got := texts(greedy[0]); !slices.Equal(got, []string{`{"path":"huge 0","status":200,"body":1}`}) {
			t.Errorf("%d events: %.300q", len(got), got)
		}
		cancel()
		synctest.Wait()
	})
}

// A stream with slow paths does not keep another one waiting for all of them.
func TestSlowPaths(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newSampler(ctx, func(ctx context.Context, path string) *answer {
			if strings.HasPrefix(path, "slow") {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
			return &answer{body: []byte(`1`)}
		})
		var slow []string
		for i := range maxPaths {
			slow = append(slow, fmt.Sprint("slow ", i))
		}
		if _, why := s.watch(once(slow...), from(1)); why != nil {
			t.Fatal(why)
		}
		page, why := s.watch(once("a", "b"), from(1))
		if why != nil {
			t.Fatal(why)
		}
		<-time.After(2*time.Second + sampleEvery)
		if got := texts(page); len(got) != 2 {
			t.Errorf("after two passes with slow paths the page got %q", got)
		}
		cancel()
		synctest.Wait()
	})
}
