package pqd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

// Budget are items of the queue paid, whose cost has a rate, and workers that call a service with them. Each call costs up to ten times
// more, or less, than the item had said. Workers and processes are killed. The journal has what each delivery reserved and what it cost;
// by the journal alone the rate is kept.
type Budget struct {
	testing.TB
	n      int64 // tokens that come
	period time.Duration

	url  string
	left atomic.Int64 // items that have not ended, by what workers know

	mu      sync.Mutex
	items   []budgeted
	journal journal

	killed atomic.Int64 // workers
}

// budgeted is an item.
type budgeted struct {
	cost       int64
	pushed     time.Time
	deliveries []*delivery // that are known
}

// delivery is a lease of an item.
type delivery struct {
	fence    int64
	at       time.Time
	reserved int64
	ended    bool // as its worker says: it gives back no more than that was noted
}

// paidFor is for how long a worker has an item.
const paidFor = 2 * time.Second

// NewBudget pushes items that cost 10 to 1000, and gives the queue a rate.
func NewBudget(t testing.TB, url string, random *rand.Rand, items int) *Budget {
	t.Helper()
	b := &Budget{TB: t, n: 40_000, period: time.Second, url: url, items: make([]budgeted, items)}
	b.left.Store(int64(items))
	queue, die := b.dial()
	defer die()
	if _, err := queue.Configure(t.Context(), client.ConfigChange{CostRate: new(fmt.Sprintf("%d/%s", b.n, b.period)), Lease: new(client.Duration(paidFor))}); err != nil {
		t.Fatal(err)
	}
	var pushes sync.WaitGroup
	for i := range b.items {
		b.items[i] = budgeted{cost: int64(10 * math.Pow(100, random.Float64())), pushed: time.Now()}
		priority := client.Priority(int64(random.IntN(10)))
		pushes.Go(func() {
			if _, err := queue.Push(t.Context(), []byte(strconv.Itoa(i)), priority, client.Cost(b.items[i].cost)); err != nil {
				t.Error(err)
			}
		})
	}
	pushes.Wait()
	return b
}

func (b *Budget) dial() (queue *client.Queue, die func()) {
	queue, die, err := Dial(b.url, "paid")
	if err != nil {
		b.Error(err)
	}
	return queue, die
}

// Run has workers work until all items have ended. Meanwhile something happens a number of times, each time after the same number of
// items.
func (b *Budget) Run(random *rand.Rand, workers, times int, happen func(i int)) {
	b.Helper()
	part := int64(len(b.items) / (times + 1))
	moments := make(chan int64, len(b.items))
	over, stop := context.WithCancel(b.Context())
	defer stop()
	var all sync.WaitGroup
	for range workers {
		own := rand.New(rand.NewPCG(random.Uint64(), 1))
		all.Go(func() {
			for over.Err() == nil && !b.Failed() {
				if b.work(over, own, moments) {
					stop()
				}
			}
		})
	}
	for i := range times {
		for left := int64(len(b.items)); left > int64(len(b.items))-int64(i+1)*part; {
			select {
			case left = <-moments:
			case <-over.Done():
				return
			}
		}
		happen(i)
	}
	all.Wait()
}

// work is a worker, until it is killed. It reports whether no item is left.
func (b *Budget) work(over context.Context, random *rand.Rand, moments chan<- int64) bool {
	queue, die := b.dial()
	defer die()
	for calls := random.IntN(100); calls >= 0; calls-- {
		if calls == 0 { // the worker is killed as it pops, calls or settles
			b.killed.Add(1)
			defer time.AfterFunc(time.Duration(random.Int64N(int64(5*time.Millisecond))), die).Stop()
		}
		item, err := queue.Pop(over, client.Min, client.Wait(time.Second))
		switch {
		case over.Err() != nil:
			return false
		case errors.Is(err, client.ErrEmpty):
			if info, err := queue.Info(over); err == nil && info.Ready+info.Leased+info.Delayed == 0 {
				return true
			}
		case errors.Is(err, client.ErrUnknownResult), errors.Is(err, nats.ErrConnectionClosed): // what it may have leased comes back
		case err != nil:
			b.Errorf("pop: %v", err)
			return false
		default:
			if b.call(item, random) {
				moments <- b.left.Add(-1)
			}
		}
	}
	return false
}

// delivered notes a delivery.
func (b *Budget) delivered(item *client.Item) (*delivery, error) {
	i, err := strconv.Atoi(string(item.Payload))
	if err != nil || i < 0 || i >= len(b.items) {
		return nil, fmt.Errorf("popped %q", item.Payload)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	of := &b.items[i]
	if item.Cost != of.cost {
		return nil, fmt.Errorf("item %d costs %d, expected %d", i, item.Cost, of.cost)
	}
	d := &delivery{int64(item.Fence), item.LeaseExpires().Add(-paidFor), item.Cost, false}
	of.deliveries = append(of.deliveries, d)
	b.journal.note(entry{tokens: d.reserved, from: d.at, until: d.at.Add(time.Millisecond), delivery: true}) // as times are shown
	return d, nil
}

// returns notes tokens that may have come back by themselves: those of deliveries that reached no worker, or one that was killed.
func (b *Budget) returns() {
	for _, of := range b.items {
		slices.SortFunc(of.deliveries, func(a, b *delivery) int { return int(a.fence - b.fence) })
		before := &delivery{at: of.pushed, ended: true}
		for _, d := range of.deliveries {
			if !before.ended {
				b.journal.note(entry{tokens: -before.reserved, from: before.at, until: d.at})
			}
			for range d.fence - before.fence - 1 {
				b.journal.note(entry{tokens: -of.cost, from: before.at, until: d.at})
			}
			before = d
		}
	}
}

// call calls the service, and settles the item. It reports whether the item has ended.
func (b *Budget) call(item *client.Item, random *rand.Rand) bool {
	d, err := b.delivered(item)
	if err != nil {
		b.Error(err)
		return false
	}
	ctx := b.Context()
	if random.IntN(20) == 0 { // it has no time
		b.settle(d, 0, func() error { return item.GiveBack(ctx, "") })
		return false
	}
	truth := int64(float64(d.reserved) * math.Pow(10, 2*random.Float64()-1))
	b.serve(truth)
	if random.IntN(5) == 0 { // it says so as it goes
		reserved := max(d.reserved, truth*random.Int64N(100)/100)
		item.Spent(reserved)
		if !b.correct(d, reserved, func() error { return item.Extend(ctx) }) {
			return false // it dies
		}
	}
	says := truth
	if random.IntN(20) == 0 {
		says = d.reserved // without a word
	} else {
		item.Spent(truth)
	}
	switch chance := random.IntN(100); {
	case chance < 75:
		return b.settle(d, says, func() error { return item.Ack(ctx) })
	case chance < 80:
		return b.settle(d, says, func() error { return item.Terminate(ctx, "no") })
	case chance < 90:
		b.settle(d, says, func() error { return item.Nack(ctx) })
	case chance < 95:
		b.settle(d, says, func() error { return item.GiveBack(ctx, "another one has more time") })
	default:
		d.ended = true // the worker has it, and does nothing with it
	}
	return false
}

// settle ends a delivery with a correction of what it has reserved, and reports whether it did.
func (b *Budget) settle(d *delivery, to int64, end func() error) bool {
	d.ended = b.correct(d, to, end)
	return d.ended
}

// correct corrects what a delivery has reserved, and reports whether it did. Tokens that a correction puts back are noted even if no
// answer came.
func (b *Budget) correct(d *delivery, to int64, correct func() error) bool {
	sent := time.Now()
	err := correct()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil || to < d.reserved {
		b.journal.note(entry{tokens: to - d.reserved, from: sent, until: time.Now()})
	}
	d.reserved = max(d.reserved, to)
	if err != nil && !errors.Is(err, client.ErrLeaseLost) && !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, client.ErrUnknownResult) {
		b.Error(err)
	}
	return err == nil
}

// serve notes a call of the service.
func (b *Budget) serve(cost int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.journal.calls = append(b.journal.calls, call{time.Now(), cost})
}

// Judge compares the journal with the rate.
func (b *Budget) Judge() {
	b.Helper()
	b.returns()
	least, used := b.journal.room(b.n, b.period), b.journal.use(b.n, b.period)
	b.Logf("%d calls, %d workers were killed; the service did %d in its busiest %s; %.0f %% of the rate were used; a delivery found %d tokens at least",
		len(b.journal.calls), b.killed.Load(), b.journal.busiest(b.period), b.period, 100*used, least)
	if least < 1 {
		b.Errorf("a delivery went when the rate of %d in %s had %d tokens by the journal, expected one", b.n, b.period, least)
	}
	if used < 0.5 {
		b.Errorf("%.0f %% of the rate were used while items waited", 100*used)
	}
}
