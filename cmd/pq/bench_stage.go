package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

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
