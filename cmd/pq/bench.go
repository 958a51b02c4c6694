package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nuid"
	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// benching are the flags of bench.
type benching struct {
	items, size, priorities int
	pushers, poppers, batch int
	lease, together, ids    bool
}

func benchCommand(s *session.Session) *cobra.Command {
	b := &benching{items: 100_000, size: 128, priorities: 10, pushers: 64, poppers: 64, batch: 1}
	c := &cobra.Command{
		Use: "bench [<queue>]", Args: session.Arguments(0, 1),
		Short: "measure how fast pushes and pops are",
		Long: `Pushes items, pops them again, and prints how many a second and how long one took.
Each pusher and each popper waits for its answer before it goes on. Without a
queue it makes one and deletes it in the end; a queue that is given should be
empty, because it is emptied.`,
		Example: `  # as a worker: lease items and acknowledge each
  pq bench --lease

  # pushing and popping at the same time
  pq bench --together

  # how long one push takes when nothing else happens
  pq bench --pushers 1 --poppers 1 -n 1000`,
		RunE: func(_ *cobra.Command, args []string) error { return b.run(s, args) },
	}
	f := c.Flags()
	f.IntVarP(&b.items, "items", "n", b.items, "`number` of items")
	f.IntVar(&b.size, "size", b.size, "`bytes` of a payload")
	f.IntVar(&b.priorities, "priorities", b.priorities, "`number` of priorities, of which each item gets one at random")
	f.IntVar(&b.pushers, "pushers", b.pushers, "`number` of pushes at a time")
	f.IntVar(&b.poppers, "poppers", b.poppers, "`number` of pops at a time")
	f.IntVar(&b.batch, "batch", b.batch, "`number` of items that a pop asks for")
	f.BoolVar(&b.lease, "lease", b.lease, "pop with a lease, and acknowledge")
	f.BoolVar(&b.ids, "ids", b.ids, "push with message ids")
	f.BoolVar(&b.together, "together", b.together, "push and pop at the same time")
	return c
}

func (b *benching) run(s *session.Session, args []string) (err error) {
	for name, n := range map[string]int{
		"items": b.items, "priorities": b.priorities, "pushers": b.pushers, "poppers": b.poppers, "batch": b.batch,
	} {
		if n < 1 {
			return session.Usagef("--%s %d: expected 1 or more", name, n)
		}
	}
	if b.size < 0 {
		return session.Usagef("--size %d: expected 0 or more", b.size)
	}
	c, err := s.Connect(client.RetryFor(session.Patience), client.Timeout(max(time.Minute, s.Global.Timeout)))
	if err != nil {
		return err
	}
	name := "bench-" + nuid.Next()
	if len(args) > 0 {
		name = args[0]
	}
	q := c.Queue(name)
	if len(args) == 0 {
		defer func() {
			// Also after Ctrl-C; the client's own timeout bounds it.
			if deleteErr := q.Delete(context.WithoutCancel(s.Context)); !errors.Is(deleteErr, client.ErrNotFound) {
				err = errors.Join(err, deleteErr)
			}
		}()
	}
	pushes := &stage{name: "push", goal: int64(b.items), workers: b.pushers, work: func(ctx context.Context, _ int64) (int, error) { return b.push(ctx, q) }}
	pops := &stage{name: "pop", goal: int64(b.items), workers: b.poppers, work: func(ctx context.Context, left int64) (int, error) { return b.pop(ctx, q, left) }}
	if b.lease {
		pops.name = "pop, ack"
	}
	if b.together {
		var both sync.WaitGroup
		both.Go(func() { pushes.run(s, pops) })
		pops.run(s, nil)
		both.Wait()
	} else if pushes.run(s, nil); pushes.err == nil {
		pops.run(s, nil)
	}
	for _, p := range []*stage{pushes, pops} {
		if p.done.Load() > 0 {
			if err := p.summary(s, b.size); err != nil {
				return err
			}
		}
	}
	return errors.Join(pushes.err, pops.err)
}

func (b *benching) push(ctx context.Context, q *client.Queue) (int, error) {
	options := []client.PushOption{client.Priority(rand.Int64N(int64(b.priorities)))}
	if !b.ids {
		options = append(options, client.WithoutMsgID())
	}
	_, err := q.Push(ctx, make([]byte, b.size), options...)
	return 1, err
}

// benchWait is how long a pop waits for an item.
const benchWait = 10 * time.Second

func (b *benching) pop(ctx context.Context, q *client.Queue, left int64) (int, error) {
	options := []client.PopOption{client.Wait(benchWait)}
	if b.lease {
		options = append(options, client.Lease(time.Minute))
	}
	var items []*client.Item
	var err error
	if b.batch == 1 {
		var item *client.Item
		item, err = q.Pop(ctx, client.Min, options...)
		items = append(items, item)
	} else {
		items, err = q.PopBatch(ctx, client.Min, int(min(left, int64(b.batch))), options...)
	}
	if err != nil || !b.lease {
		return len(items), err
	}
	for _, item := range items {
		if err := item.Ack(ctx); err != nil {
			return 0, err
		}
	}
	return len(items), nil
}

// stage is a part of the benchmark: workers push or pop until enough is done.
type stage struct {
	name    string
	goal    int64
	workers int
	work    func(ctx context.Context, left int64) (int, error)

	started atomic.Int64
	done    atomic.Int64
	took    time.Duration
	mu      sync.Mutex
	times   []time.Duration
	err     error
}

// run does the work. It shows its progress unless shown, which runs at the same time, does.
func (g *stage) run(s *session.Session, shown *stage) {
	var bar *session.Progress
	if shown == nil {
		bar = s.Progress(g.name, g.goal, show.Thousands)
		defer bar.End()
	}
	ctx, cancel := context.WithCancel(s.Context)
	defer cancel()
	began := time.Now()
	var workers sync.WaitGroup
	for range min(int64(g.workers), g.goal) {
		workers.Go(func() {
			var times []time.Duration
			var err error
			for err == nil {
				left := g.goal - g.done.Load()
				if left <= 0 || g.started.Add(1) > g.goal {
					break
				}
				var n int
				start := time.Now()
				if n, err = g.work(ctx, left); err != nil {
					break
				}
				times = append(times, time.Since(start))
				done := g.done.Add(int64(n))
				if bar != nil {
					bar.Set(done)
				}
				if done >= g.goal {
					cancel() // waiting pops would get no more items
				}
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			g.times = append(g.times, times...)
			if err != nil && g.done.Load() < g.goal && g.err == nil {
				g.err = fmt.Errorf("%s: %w", g.name, err)
				cancel()
			}
		})
	}
	workers.Wait()
	g.took = time.Since(began)
}

// summary prints the result.
func (g *stage) summary(s *session.Session, size int) error {
	slices.Sort(g.times)
	at := func(q float64) time.Duration { return g.times[int(q*float64(len(g.times)-1))] }
	rate := float64(g.done.Load()) / g.took.Seconds()
	if s.Global.JSON {
		return s.PrintJSON(map[string]any{
			"phase": g.name, "items": g.done.Load(), "seconds": g.took.Seconds(), "per_second": rate,
			"p50": at(0.5).Seconds(), "p90": at(0.9).Seconds(), "p99": at(0.99).Seconds(), "max": at(1).Seconds(),
		})
	}
	return s.Printf("%-9s %s in %s  %s/s  %.1f MiB/s  p50 %s  p90 %s  p99 %s  max %s",
		g.name, show.Many(g.done.Load(), "item"), show.Span(g.took), show.Thousands(int64(rate)), rate*float64(size)/(1<<20),
		milli(at(0.5)), milli(at(0.9)), milli(at(0.99)), milli(at(1)))
}

// milli writes a latency.
func milli(d time.Duration) string { return fmt.Sprintf("%.2fms", d.Seconds()*1000) }
