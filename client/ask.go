package client

import (
	"slices"
	"sync/atomic"

	"github.com/pqbridge/pqbridge/internal/lanes"
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
