package turns_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
)

// request is what the lines of these tests have.
type request struct {
	n, weight, size int
	arrived         time.Time
	fails           func() error // asked each time that the request is done; nil: it never fails
	follows         bool         // it has to follow other turns
	refused         error        // by Plan
	ahead           bool         // it goes ahead of others
	unsure          *int         // so many times the transaction may not commit with it
	unserved        *int         // so many times it is not served, nor are those behind it
	mended          error        // an error that Mend does something about, by leaving this request out
	own             bool         // the part has added it, and keeps it when it comes back
}

// transaction is one run of a transaction, with the requests of each line that were done, in order.
type transaction struct {
	done   []done
	ahead  []string // the lines that have said what they read
	commit chan error
}

// done are requests of a line.
type done struct {
	key     string
	numbers []int
}

// answered is how requests of a line ended.
type answered struct {
	key     string
	numbers []int
	err     error
}

// store is one whose transactions commit when the test says so.
type store struct {
	*testing.T
	*turns.Turns[request, *transaction]
	begun chan *transaction // which were done, and wait for their commit
	stuck chan []int
	calls []string                 // of Open and Todo
	adds  map[string][]int         // by line: what the part adds when it is woken
	waits map[string]chan struct{} // by line: what Todo waits for
	again error                    // of Again
	rooms []int                    // that parts were told of

	answer func([]request) // if there is one, it gets requests that were done

	mu   sync.Mutex
	ends []answered
	ran  []int // numbers of requests of committed transactions
}

var (
	errAway     = errors.New("the store is away")
	errConflict = errors.New("conflict") // the transaction runs again
	errBroken   = errors.New("this request cannot be done")
	errFull     = errors.New("no request of the line can be done")
)

var roomy = batch.Limits{Requests: 100, Bytes: 1 << 20}

// newStore returns turns within synctest, one at a time unless the options say otherwise. They end with the test, which may leave
// no request without an answer.
func newStore(t *testing.T, o turns.Options[request, *transaction]) *store {
	s := &store{T: t, begun: make(chan *transaction), stuck: make(chan []int, 16), adds: make(map[string][]int), waits: make(map[string]chan struct{})}
	if o.Turns == 0 {
		o.Turns = 1
	}
	if o.Limits.Requests == 0 {
		o.Limits = roomy
	}
	if o.Slow == 0 {
		o.Slow = 20 * time.Millisecond
	}
	if o.Patience.First == 0 {
		o.Patience = batch.Patience{First: 4 * time.Second, Then: time.Second}
	}
	o.Part = func(kind int) turns.Part[request, *transaction] { return &part{of: s, kind: kind} }
	if o.Update == nil {
		o.Update = s.update
	}
	o.Outage = func(err error) bool { return errors.Is(err, errAway) }
	o.Ran = func(done map[int]int, _ time.Duration) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ran = append(s.ran, done[0])
	}
	o.Ahead = func(r request) bool { return r.ahead }
	o.Weight = func(r request) int { return max(1, r.weight) }
	o.Size = func(r request) int { return max(1, r.size) }
	o.Waited = func(r request) time.Duration { return time.Since(r.arrived) }
	o.Stuck = func(late []request) {
		select {
		case s.stuck <- numbers(late):
		default:
			panic("a turn is stuck, and the test waits for something that does not come")
		}
	}
	s.Turns = turns.New(o)
	t.Cleanup(func() {
		s.Stop()
		s.Wait()
	})
	return s
}

// update runs a transaction, again after each conflict.
func (s *store) update(fn func(*transaction) error) error {
	for {
		tx := &transaction{commit: make(chan error)}
		if err := fn(tx); err != nil {
			return err
		}
		s.begun <- tx
		if err := <-tx.commit; err != errConflict {
			return err
		}
	}
}

// part does the requests of a line.
type part struct {
	turns.Simple[request, *transaction]
	of       *store
	kind     int
	key      string
	beside   bool
	requests []request
}

func (p *part) Open(start turns.Start, requests []request) {
	p.key, p.beside = start.Queue, start.Beside
	call := "open " + p.key
	if start.Alone {
		call += " alone"
	}
	p.of.called(call)
	if start.Woken {
		for _, n := range p.of.adds[p.key] {
			requests = append(requests, request{n: n, own: true})
		}
		delete(p.of.adds, p.key)
	}
	p.Keep(requests)
}

func (p *part) Todo() []request {
	p.of.called("todo " + p.key)
	if wait := p.of.waits[p.key]; wait != nil {
		<-wait
	}
	return p.Simple.Todo()
}

func (p *part) Plan(requests []request) (int, error) {
	if p.requests != nil {
		p.of.Error("a transaction is prepared while the one before has not ended")
	}
	for i, r := range requests {
		if r.refused != nil {
			return i, r.refused
		}
	}
	p.requests = requests
	return 0, nil
}

func (p *part) Ahead(tx *transaction) { tx.ahead = append(tx.ahead, p.key) }

func (p *part) Do(tx *transaction, left *turns.Limits) (int, error) {
	p.of.told(left.Requests)
	left.Requests -= len(p.requests)
	for i, r := range p.requests {
		if r.follows && p.beside {
			return i, turns.ErrFollow
		}
		if r.fails == nil {
			continue
		}
		if err := r.fails(); err != nil {
			return i, err
		}
	}
	tx.done = append(tx.done, done{p.key, numbers(p.requests)})
	return len(p.requests), nil
}

func (p *part) Check() bool {
	sure := true
	for _, r := range p.requests {
		if r.unsure != nil && *r.unsure > 0 {
			*r.unsure--
			sure = false
		}
	}
	return sure
}

func (p *part) Again() error { return p.of.again }

func (p *part) Mend(requests []request, at int, err error) ([]request, bool) {
	if at < len(requests) && requests[at].mended == err {
		p.of.Answer(p.key, requests[at:at+1], err)
		return slices.Delete(slices.Clone(requests), at, at+1), true
	}
	return requests, false
}

func (p *part) Return(requests []request) (back []request, more bool) {
	for _, r := range requests {
		if r.own {
			p.of.adds[p.key] = append(p.of.adds[p.key], r.n)
			more = true
		} else {
			back = append(back, r)
		}
	}
	return back, more
}

func (p *part) Ran() (sort, n int) { return 0, len(p.requests) }

func (p *part) Close(error) {
	if p.requests == nil {
		p.of.Error("a transaction ends that was not prepared")
	}
	p.requests = nil
}

func (p *part) Common(err error) bool { return errors.Is(err, errAway) || errors.Is(err, errFull) }

func (p *part) Answer(requests []request, err error) (served int, more bool) {
	if p.of.answer != nil {
		p.of.answer(requests)
		return len(requests), false
	}
	for i, r := range requests {
		if err == nil && r.unserved != nil && *r.unserved > 0 {
			*r.unserved--
			requests = requests[:i]
			break
		}
	}
	p.of.Answer(p.key, requests, err)
	return len(requests), false
}

// Answer notes how requests ended.
func (s *store) Answer(key string, requests []request, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, answered{key, numbers(requests), err})
}

func (s *store) told(room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rooms = append(s.rooms, room)
}

func (s *store) called(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, what)
}

func numbers(requests []request) (n []int) {
	for _, r := range requests {
		n = append(n, r.n)
	}
	return n
}

// on is what a line does in a transaction.
func on(key string, numbers ...int) done { return done{key, numbers} }

// next is the next transaction that waits for its commit. It did this, and commits when the test closes or answers commit.
func (s *store) next(want ...done) *transaction {
	s.Helper()
	tx := <-s.begun
	if !slices.EqualFunc(tx.done, want, func(a, b done) bool { return a.key == b.key && slices.Equal(a.numbers, b.numbers) }) {
		s.Errorf("a transaction of %v, expected %v", tx.done, want)
	}
	return tx
}

// commits is a transaction that commits.
func (s *store) commits(want ...done) {
	s.Helper()
	s.next(want...).end(nil)
}

// end ends transactions, and all goes on as far as it can.
func (tx *transaction) end(err error) {
	tx.commit <- err
	synctest.Wait()
}

// each are the next transactions, of one line each, in any order. All of them commit.
func (s *store) each(want ...done) {
	s.Helper()
	var open []*transaction
	var got []done
	for range want {
		tx := <-s.begun
		if len(tx.done) != 1 {
			s.Errorf("a transaction of %v, expected one line", tx.done)
		}
		got, open = append(got, tx.done...), append(open, tx)
	}
	slices.SortFunc(got, func(a, b done) int { return a.numbers[0] - b.numbers[0] })
	if !slices.EqualFunc(got, want, func(a, b done) bool { return a.key == b.key && slices.Equal(a.numbers, b.numbers) }) {
		s.Errorf("transactions of %v, expected %v", got, want)
	}
	for _, tx := range open {
		tx.end(nil)
	}
}

// quiet fails if a transaction begins.
func (s *store) quiet() {
	s.Helper()
	select {
	case tx := <-s.begun:
		s.Fatalf("a transaction of %v begins", tx.done)
	case <-time.After(5 * time.Millisecond):
	}
}

// put submits requests, of weight and size 1.
func (s *store) put(key string, numbers ...int) {
	for _, n := range numbers {
		s.send(key, request{n: n})
	}
}

// send submits a request that arrives now.
func (s *store) send(key string, r request) {
	r.arrived = time.Now()
	s.Submit(turns.Key{Queue: key}, r)
}

// hold has a transaction under way, behind which requests wait.
func (s *store) hold() *transaction {
	s.Helper()
	s.put("held", 0)
	return s.next(on("held", 0))
}

// ended is how a request ended, once.
func (s *store) ended(key string, n int, want error) {
	s.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	times := 0
	for _, a := range s.ends {
		if a.key == key && slices.Contains(a.numbers, n) {
			times++
			if !errors.Is(a.err, want) || want == nil && a.err != nil {
				s.Errorf("request %d of %s ended with %v, expected %v", n, key, a.err, want)
			}
		}
	}
	if times != 1 {
		s.Errorf("request %d of %s ended %d times", n, key, times)
	}
}

// inBubble runs a test with turns of these options.
func inBubble(t *testing.T, o turns.Options[request, *transaction], test func(s *store)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(newStore(t, o)) })
}

type options = turns.Options[request, *transaction]
