package client

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/lanes"
	"github.com/pqbridge/pqbridge/protocol"
)

// ask is the wish of a worker of a Consume for an item. Workers that are idle at the same time ask together: one
// pop asks for as many items as there are idle workers, so no item is leased for a busy worker.
type ask struct {
	settled <-chan struct{} // closed when the worker's previous item is settled
	done    chan asked      // gets one value
}

// asked is the result of an ask.
type asked struct {
	item  *Item
	err   error
	early bool // the worker asked before its previous item was settled
	told  bool // another worker of the same pop reports the error
	look  bool // the pop did not wait, so its error says why there is nothing
}

func (a *ask) Bytes() int         { return 0 }
func (a *ask) Apart() bool        { return false }
func (a *ask) GoesWith(*ask) bool { return true }

// early reports whether the worker's previous item is not settled yet.
func (a *ask) early() bool {
	select {
	case <-a.settled:
		return false
	default:
		return true
	}
}

// asks are the asks of a Consume.
type asks struct {
	*lanes.Lanes[*ask]
	consumer *consumer
	single   bool // each worker asks alone
	options  []PopOption
	looked   atomic.Bool // a pop has left
}

func newAsks(c *consumer, options []PopOption) *asks {
	most := c.queue.client.settlements.most
	var request popRequest
	for _, opt := range options {
		opt(&request)
	}
	a := &asks{consumer: c, options: options, single: most == 1 || request.MsgID != "" && !request.ownID}
	a.Lanes = lanes.New(func() (int, int) { return most, 0 }, func(_ lanes.Key, all []*ask) { go a.pop(all) })
	return a
}

// ask gets an item, or an error.
func (a *asks) ask(settled <-chan struct{}) asked {
	one := &ask{settled: settled, done: make(chan asked, 1)}
	if a.single {
		return a.alone(one)
	}
	if _, alone := a.Join(lanes.Key{}, lanes.Key{}, one); alone {
		defer a.Land(lanes.Key{})
		return a.alone(one)
	}
	select {
	case got := <-one.done:
		return got
	case <-a.consumer.ctx.Done():
		if a.TakeOut(lanes.Key{}, one) {
			return asked{err: a.consumer.ctx.Err()}
		}
		return <-one.done
	}
}

func (a *asks) alone(one *ask) asked {
	early := one.early()
	options, look := a.next()
	item, err := a.consumer.queue.Pop(a.consumer.ctx, a.consumer.options.End, options...)
	return asked{item: item, err: err, early: early, look: look}
}

// next are the options of the next pop. The first one does not wait: a pop that waits says nothing about a queue that does
// not exist.
func (a *asks) next() (options []PopOption, look bool) {
	if a.single || a.consumer.options.StopWhenEmpty || a.looked.Swap(true) {
		return a.options, false
	}
	return append(slices.Clip(a.options), Wait(0)), true
}

// pop asks for as many items as there are asks. Asks that get none go first next time.
func (a *asks) pop(all []*ask) {
	c := a.consumer
	early := make([]bool, len(all))
	for i, one := range all {
		early[i] = one.early()
	}
	batch := len(all)
	if batch == 1 {
		batch = 0
	}
	options, look := a.next()
	items, err := c.queue.take(c.ctx, "pop", c.options.End, batch, options)
	if err == nil {
		a.PutBack(lanes.Key{}, all[len(items):])
		all = all[:len(items)]
	}
	a.Land(lanes.Key{})
	for i, one := range all {
		got := asked{err: err, early: early[i], told: i > 0, look: look}
		if err == nil {
			got.item = items[i]
		}
		one.done <- got
	}
}

// answers collects the messages that answer any attempt of a pop or a peek: a repeated pop gives the same items
// under the same leases. Adding a message never blocks the mailbox.
type answers struct {
	mailbox *mailbox
	inbox   *inbox        // of its reply subject while it waits; nil: it has one of its own
	more    chan struct{} // has a value when there may be messages
	lost    chan struct{} // has a value when the connection is a new one

	mu       sync.Mutex
	attempts int
	stops    []func()            // of the attempts that do not wait
	waits    func(answered bool) // ends the wait of the last attempt; nil: it does not wait
	here     []answer
	closed   bool
	leases   map[leaseName]bool // that the caller has got from a repeated request
}

// answer is a message, and the attempt that it answers.
type answer struct {
	*nats.Msg
	attempt int
}

// leaseName identifies a lease: two answers with the same lease may have different subjects.
type leaseName struct{ id, fence string }

func leaseOf(m *nats.Msg) leaseName {
	return leaseName{m.Header.Get(protocol.HeaderID), m.Header.Get(protocol.HeaderFence)}
}

// lateFor is how long the client remembers leases that the caller has got: a late answer to an earlier attempt with
// the same lease is not given back.
const lateFor = 10 * time.Minute

func newAnswers(b *mailbox) *answers {
	return &answers{mailbox: b, more: make(chan struct{}, 1), lost: make(chan struct{}, 1)}
}

// attempt returns the reply subject of another attempt. It ends the wait of the attempt before.
func (a *answers) attempt(waits bool) (reply string, err error) {
	a.endWait(false)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attempts++
	n := a.attempts
	to := addressee{
		deliver:   func(m *nats.Msg) { a.add(answer{m, n}) },
		reconnect: func() { notify(a.lost) },
	}
	if waits {
		wait := a.mailbox.wait
		if a.inbox != nil {
			wait = a.inbox.wait
		}
		reply, a.waits, err = wait(to)
		return reply, err
	}
	reply, stop := a.mailbox.receive(to)
	a.stops = append(a.stops, stop)
	return reply, nil
}

// endWait ends the wait of the last attempt, if it waits.
func (a *answers) endWait(answered bool) {
	a.mu.Lock()
	end := a.waits
	a.waits = nil
	a.mu.Unlock()
	if end != nil {
		end(answered)
	}
}

// add adds an answer, a bundle as its items and their end.
func (a *answers) add(m answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range unbundled(m.Msg) {
		one := answer{one, m.attempt}
		if a.closed {
			a.giveBack(one)
		} else {
			a.here = append(a.here, one)
		}
	}
	notify(a.more)
}

// next returns the next message, nil when there is none yet, and whether it is late: it
// answers an earlier attempt.
func (a *answers) next() (m *nats.Msg, late bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.here) == 0 {
		return nil, false
	}
	first := a.here[0]
	a.here = a.here[1:]
	return first.Msg, first.attempt < a.attempts
}

// got notes that the caller gets the item of a message, and returns false if the caller has the item already.
func (a *answers) got(m *nats.Msg) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.attempts < 2 {
		return true // no other answer has its lease
	}
	name := leaseOf(m)
	if a.leases[name] {
		return false
	}
	if a.leases == nil {
		a.leases = make(map[leaseName]bool)
	}
	a.leases[name] = true
	return true
}

// close gives back the items that the caller has not got, and makes the mailbox give back items that arrive later.
func (a *answers) close() {
	a.endWait(false)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, m := range a.here {
		a.giveBack(m)
	}
	a.here = nil
	stop := func() {
		for _, stop := range a.stops {
			stop()
		}
	}
	if len(a.leases) > 0 {
		time.AfterFunc(lateFor, stop)
	} else {
		stop()
	}
}

func (a *answers) giveBack(m answer) {
	if !a.leases[leaseOf(m.Msg)] {
		a.mailbox.giveBack(m.Msg)
	}
}
