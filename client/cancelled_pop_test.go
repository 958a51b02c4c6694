package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// pops are the ways to wait for items.
var pops = []struct {
	name string
	pop  func(context.Context, *client.Queue) ([]*client.Item, error)
}{
	{"for good", one()},
	{"repeatable", one(client.Repeatable())},
	{"with a lease", one(client.Lease(time.Hour))},
	{"repeatable, with a lease", one(client.Lease(time.Hour), client.Repeatable())},
	{"batch for good", func(ctx context.Context, q *client.Queue) ([]*client.Item, error) {
		return q.PopBatch(ctx, client.Min, 10, client.Wait(time.Hour))
	}},
	{"batch with a lease", func(ctx context.Context, q *client.Queue) ([]*client.Item, error) {
		return q.PopBatch(ctx, client.Min, 10, client.Wait(time.Hour), client.Lease(time.Hour))
	}},
}

func one(opts ...client.PopOption) func(context.Context, *client.Queue) ([]*client.Item, error) {
	return func(ctx context.Context, q *client.Queue) ([]*client.Item, error) {
		item, err := q.Pop(ctx, client.Min, append(opts, client.Wait(time.Hour))...)
		if err != nil {
			return nil, err
		}
		return []*client.Item{item}, nil
	}
}

// seeWaits tells by queue of each pop that waits.
func seeWaits(t *testing.T, nc *nats.Conn) func(queue string) <-chan struct{} {
	t.Helper()
	var mu sync.Mutex
	seen := make(map[string]chan struct{})
	of := func(queue string) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if seen[queue] == nil {
			seen[queue] = make(chan struct{}, 1000)
		}
		return seen[queue]
	}
	if _, err := nc.Subscribe("pq.*.pop.*", func(m *nats.Msg) {
		var request struct{ Expires time.Duration }
		if len(m.Data) > 0 {
			if err := json.Unmarshal(m.Data, &request); err != nil {
				t.Error(err)
			}
		}
		if request.Expires > 0 {
			of(strings.Split(m.Subject, ".")[1]) <- struct{}{}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return func(queue string) <-chan struct{} { return of(queue) }
}

// A pop that was cancelled while it waited takes nothing that is pushed later: not for good, and not under a
// lease that lasts.
func TestCancelledPopTakesNothing(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.client.ConfirmWithin(time.Hour) // what is not given back is missing
	waits := seeWaits(t, w.NATS.Connect(t))
	type end func(pop func(context.Context, *client.Queue) ([]*client.Item, error), q *client.Queue)
	stopped := func(err error) {
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the pop ended with %v", err)
		}
	}
	for name, end := range map[string]end{
		"cancel": func(pop func(context.Context, *client.Queue) ([]*client.Item, error), q *client.Queue) {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-waits(q.Name())
				cancel()
			}()
			_, err := pop(ctx, q)
			stopped(err)
		},
		"timeout": func(pop func(context.Context, *client.Queue) ([]*client.Item, error), q *client.Queue) {
			ctx, cancel := context.WithTimeout(t.Context(), testenv.Times(time.Second))
			defer cancel()
			_, err := pop(ctx, q)
			if !errors.Is(err, client.ErrEmpty) && !errors.Is(err, client.ErrUnknownResult) { // the answer comes too late on a busy machine
				t.Errorf("the pop ended with %v", err)
			}
		},
		"first of two": func(pop func(context.Context, *client.Queue) ([]*client.Item, error), q *client.Queue) {
			ctx, cancel := context.WithCancel(t.Context())
			other := w.client.Queue("other-" + q.Name())
			first := make(chan error, 1)
			go func() {
				_, err := pop(ctx, other)
				cancel()
				first <- err
			}()
			go func() {
				<-waits(q.Name())
				if _, err := other.Push(t.Context(), nil); err != nil {
					t.Error(err)
				}
			}()
			_, err := pop(ctx, q)
			stopped(err)
			if err := <-first; err != nil {
				t.Errorf("the first one: %v", err)
			}
		},
	} {
		for i, p := range pops {
			t.Run(name+", "+p.name, func(t *testing.T) {
				t.Parallel()
				q := w.client.Queue(fmt.Sprint(strings.ReplaceAll(name, " ", "-"), i))
				end(p.pop, q)
				for _, payload := range []string{"a", "b"} {
					if _, err := q.Push(t.Context(), []byte(payload)); err != nil {
						t.Fatal(err)
					}
				}
				testenv.Await(t, "both items are ready", func() bool {
					info, err := q.Info(t.Context())
					return err == nil && info.Ready == 2 && info.Leased == 0
				})
			})
		}
	}
}

// Waits end at any moment beside a push, in all ways: each item is at the client or in the queue, never at
// both and never at neither.
func TestCancelMeetsServe(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.client.ConfirmWithin(time.Hour)
	waits := seeWaits(t, w.NATS.Connect(t))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const workers = 8
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			m := meetings{
				client: w.client, waits: waits, random: rand.New(rand.NewPCG(seed, uint64(worker))), balance: make(map[string]int),
				queues: []string{fmt.Sprint("a", worker), fmt.Sprint("b", worker)},
			}
			for range nightly.Fewer(nightly.Fewer(10_000)) / workers { // they are slow with the race detector
				m.meet(t)
			}
			m.close(t)
		})
	}
	all.Wait()
}

// meetings are waits of pops that end beside pushes.
type meetings struct {
	client *client.Client
	queues []string
	waits  func(queue string) <-chan struct{}
	random *rand.Rand

	mu      sync.Mutex
	balance map[string]int // by item: how often it was pushed, less how often somebody has got it
}

func (m *meetings) book(queue, id string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.balance[queue+" "+id] += n
}

// meet waits at one queue or both, and pushes an item to each where a pop waits. The context ends, the pop that got
// the first item ends the other one, or the time is up.
func (m *meetings) meet(t *testing.T) {
	p := pops[m.random.IntN(len(pops))]
	queues := m.queues[:1+m.random.IntN(2)]
	const most = 3 * time.Millisecond
	moment := time.Duration(m.random.Int64N(int64(most)))
	byTimeout := m.random.IntN(8) == 0
	ctx, cancel := context.WithCancel(t.Context())
	if byTimeout {
		ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		moment = time.Duration(m.random.Int64N(int64(50 * time.Millisecond)))
	}
	defer cancel()
	var all sync.WaitGroup
	for _, queue := range queues {
		for stale := true; stale; {
			select {
			case <-m.waits(queue):
			default:
				stale = false
			}
		}
		ended := make(chan struct{})
		all.Go(func() {
			defer close(ended)
			items, err := p.pop(ctx, m.client.Queue(queue))
			if err == nil && len(queues) > 1 {
				cancel()
			}
			for _, item := range items {
				m.book(queue, item.ID, -1)
				if item.Leased() {
					if err := item.Ack(t.Context()); err != nil {
						t.Errorf("%s: acknowledging %s: %v", p.name, item.ID, err)
					}
				}
			}
		})
		select {
		case <-m.waits(queue):
		case <-ended: // before it could wait
			continue
		}
		all.Add(1)
		push := func() {
			defer all.Done()
			pushed, err := m.client.Queue(queue).Push(t.Context(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			m.book(queue, pushed.ID, 1)
		}
		if byTimeout {
			time.AfterFunc(moment, push)
		} else {
			go push()
		}
	}
	if !byTimeout {
		defer time.AfterFunc(moment, cancel).Stop()
	}
	all.Wait()
	for _, queue := range queues {
		m.empty(t, queue)
	}
}

// empty takes what is left in a queue, and what comes back to it: a pop that looks for an item, and is cut off, may
// lose an item that is there.
func (m *meetings) empty(t *testing.T, queue string) {
	testenv.Await(t, queue+" is empty", func() bool {
		for {
			item, err := m.client.Queue(queue).Pop(t.Context(), client.Min)
			var e *client.Error
			switch {
			case err == nil:
				m.book(queue, item.ID, -1)
			case errors.As(err, &e) && errors.Is(err, client.ErrEmpty):
				return e.Reason != client.ReasonLeased
			default:
				t.Error(err)
				return true
			}
		}
	})
}

// close strikes the balance.
func (m *meetings) close(t *testing.T) {
	lost, doubled := 0, 0
	for _, n := range m.balance {
		lost, doubled = lost+max(0, n), doubled-min(0, n)
	}
	if lost+doubled > 0 {
		t.Errorf("of %d items %d were lost and %d were doubled", len(m.balance), lost, doubled)
	}
}
