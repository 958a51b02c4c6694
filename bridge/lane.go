package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// txTimeout is how long a transaction may take, reruns included, before its
// requests are answered that the store does not commit. Clients wait 5 s by
// habit (the default of nats.go's JetStream), so the answer should come first.
const txTimeout = 4 * time.Second

// txTimeoutDown is the same while the store is known to fail: requests have
// waited for others to fail already.
const txTimeoutDown = time.Second

// kinds are the kinds of work. Each has a lane for every queue that has such
// work, so a queue's pushes do not wait for its pops.
type kinds struct {
	push, imports, take, change, read lanes
}

func (k *kinds) init(b *Bridge) {
	k.push.init(b, b.runPushes)
	k.imports.init(b, b.runImports)
	k.take.init(b, b.runTakes)
	k.change.init(b, b.runChanges)
	k.read.init(b, b.runReads)
}

func (k *kinds) all() []*lanes {
	return []*lanes{&k.push, &k.imports, &k.take, &k.change, &k.read}
}

func (k *kinds) stop() {
	for _, ls := range k.all() {
		ls.stop()
	}
}

// lanes are the lanes of one kind of work: those that have something to do, by
// queue, and some that wait for it.
type lanes struct {
	bridge *Bridge
	work   func(*lane, []*request)

	mu     sync.Mutex
	stuck  stuckTimes
	active map[string]*lane
	idle   []*lane // to be used again, with their buffers and grown stacks

	stopped bool
	running sync.WaitGroup // the lanes' goroutines
}

// stuckTimes bound how long requests wait behind a transaction that does not
// end, because it is not known yet whether it was committed: that may take as
// long as fdbpq's resolveTimeout. After the first time, and then every second one,
// those who have waited for the second one are refused: nothing of theirs was
// begun. They are txTimeout and txTimeoutDown, but in tests.
type stuckTimes struct{ after, look time.Duration }

// maxIdleLanes bounds the goroutines and the memory kept for lanes of one kind
// that may be needed again.
const maxIdleLanes = 64

func (ls *lanes) init(b *Bridge, work func(*lane, []*request)) {
	ls.bridge, ls.work = b, work
	ls.stuck = stuckTimes{txTimeout, txTimeoutDown}
	ls.active = make(map[string]*lane)
}

// lane collects what arrives for a queue while its transaction is under way
// and then runs it all as the next one. No timer is involved: an idle queue is
// served at once, a busy one in batches. Transactions of a lane follow one
// another, so requests take effect in the order in which they arrived; settlements
// that go along with pops are done first.
type lane struct {
	of    *lanes
	wake  chan fdbpq.Queue // the queue to serve next; closed to end the lane
	queue fdbpq.Queue
	slot  *fdbpq.Session

	pending     []*request // guarded by of.mu
	settlements []*request // guarded by of.mu: those that go along
	kicked      bool       // guarded by of.mu: to run even without requests

	// What is to be done now.
	batch    []*request
	settling []*request
	called   bool // it was kicked

	updating bool        // guarded by of.mu: a transaction is under way
	relief   *time.Timer // calls relieve when it takes too long

	// Buffers of the work under way.
	items  []fdbpq.NewItem
	out    []byte
	header headerWriter
}

// submit hands a request to the lane of its queue.
func (ls *lanes) submit(r *request) {
	ls.mu.Lock()
	l := ls.lane(r.subject.Queue)
	l.pending = append(l.pending, r)
	ls.mu.Unlock()
}

// join hands a settlement to the lane of its queue, if that is running. It does
// not wait behind the lane's requests: each transaction takes settlements along.
func (ls *lanes) join(r *request) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.active[r.subject.Queue]
	if l == nil {
		return false
	}
	l.settlements = append(l.settlements, r)
	return true
}

// kick makes the queue's lane run, whether there are requests or not.
func (ls *lanes) kick(queue string) {
	ls.mu.Lock()
	ls.lane(queue).kicked = true
	ls.mu.Unlock()
}

// lane returns the running lane of a queue. It is called with the lock held,
// which the lane needs to look at what it has to do.
func (ls *lanes) lane(queue string) *lane {
	l := ls.active[queue]
	if l != nil {
		return l
	}
	if n := len(ls.idle); n > 0 {
		l, ls.idle = ls.idle[n-1], ls.idle[:n-1]
	} else {
		l = &lane{of: ls, wake: make(chan fdbpq.Queue, 1)}
		ls.running.Go(l.run)
	}
	ls.active[queue] = l
	l.wake <- ls.bridge.store.Queue(queue)
	return l
}

// stop ends the lanes that are idle, and the others when they have nothing left
// to do.
func (ls *lanes) stop() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.stopped = true
	for _, l := range ls.idle {
		close(l.wake)
	}
	ls.idle = nil
}

func (l *lane) run() {
	for l.queue = range l.wake {
		l.slot = l.of.bridge.store.Session()
		for l.next() {
			l.of.bridge.room.look()
			l.of.work(l, l.batch)
			clear(l.batch)
			clear(l.settling)
			l.batch, l.settling = l.batch[:0], l.settling[:0]
		}
	}
}

// next takes what is to be done now, within the limits of a batch. Without
// any the lane is idle.
func (l *lane) next() bool {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if len(l.pending) == 0 && len(l.settlements) == 0 && !l.kicked {
		l.slot.Release()
		l.slot = nil
		delete(l.of.active, l.queue.Name())
		if l.of.stopped || len(l.of.idle) == maxIdleLanes {
			close(l.wake)
		} else {
			l.of.idle = append(l.of.idle, l)
		}
		return false
	}
	l.called, l.kicked = l.kicked, false
	limits := &l.of.bridge.options.Limits
	l.batch = shift(l.batch, &l.pending, limits.fitting(l.pending))
	l.settling = shift(l.settling, &l.settlements, min(limits.BatchRequests, len(l.settlements)))
	return true
}

// shift moves the first n requests of a line to the end of a list. A whole line
// changes places with an empty list, so that the memory of both is used again.
func shift(to []*request, line *[]*request, n int) []*request {
	from := *line
	if n == len(from) && len(to) == 0 {
		*line = to
		return from
	}
	to = append(to, from[:n]...)
	left := copy(from, from[n:])
	clear(from[left:])
	*line = from[:left]
	return to
}

// arrived takes what came while a batch is under way, up to so many requests
// and settlements.
func (l *lane) arrived(requests, settlements int) (came, settling []*request) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	came = shift(nil, &l.pending, min(max(0, requests), len(l.pending)))
	return came, shift(nil, &l.settlements, min(max(0, settlements), len(l.settlements)))
}

// fitting returns how many of the requests go into one batch: at least one.
func (l *Limits) fitting(pending []*request) int {
	bytes := 0
	for i, r := range pending {
		bytes += r.msg.Size()
		if i > 0 && (i == l.BatchRequests || bytes > l.BatchBytes) {
			return i
		}
	}
	return len(pending)
}

// update runs fn as one transaction that takes effect exactly once.
func (l *lane) update(fn func(kv.Tx) error) error {
	ctx, cancel := l.timeout()
	defer cancel()
	l.begin()
	defer l.end()
	err := l.slot.Update(ctx, fn)
	l.of.bridge.notice(err)
	return err
}

func (l *lane) begin() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.updating = true
	if l.relief == nil {
		l.relief = time.AfterFunc(l.of.stuck.after, l.relieve)
		return
	}
	l.relief.Reset(l.of.stuck.after)
}

func (l *lane) end() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.updating = false
	l.relief.Stop()
}

// relieve refuses those who have waited too long for the transaction under way.
func (l *lane) relieve() {
	late, stuck := l.late()
	if stuck {
		l.of.bridge.notice(errStuck)
	}
	for _, r := range late {
		l.of.bridge.refuse(r, explain(errStuck))
	}
}

// errStuck: the store has not said for long whether it has committed.
var errStuck = fmt.Errorf("%w: a transaction does not end", kv.ErrUnavailable)

// late takes them out of the line, in their order, and comes again. Nothing is
// stuck if the transaction ended just now.
func (l *lane) late() (late []*request, stuck bool) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if !l.updating {
		return nil, false
	}
	l.relief.Reset(l.of.stuck.look)
	for _, line := range []*[]*request{&l.pending, &l.settlements} {
		n := 0
		for n < len(*line) && time.Since((*line)[n].arrived) >= l.of.stuck.look {
			n++
		}
		late = append(late, shift(nil, line, n)...)
	}
	return late, true
}

// view runs fn on one state of the store.
func (l *lane) view(fn func(kv.Reader) error) error {
	ctx, cancel := l.timeout()
	defer cancel()
	err := l.of.bridge.store.View(ctx, fn)
	l.of.bridge.noticeRead(err)
	return err
}

func (l *lane) timeout() (context.Context, context.CancelFunc) {
	d := txTimeout
	if l.of.bridge.keeper.ready() != nil {
		d = txTimeoutDown
	}
	return context.WithTimeout(context.Background(), d)
}

// noticeRead is notice for what changes nothing. A read that took too long was
// perhaps a large one; upkeep tells soon enough when the store is away.
func (b *Bridge) noticeRead(err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		b.options.Logger.Debug("read took too long", "error", err)
		return
	}
	b.notice(err)
}

// notice remembers that the store failed, for those who ask whether the bridge
// serves.
func (b *Bridge) notice(err error) {
	if err != nil && isOutage(err) {
		b.options.Logger.Debug("transaction failed", "error", err)
		b.keeper.failed(err)
	}
}
