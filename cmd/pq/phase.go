package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// phase is work that several do until enough is done.
type phase struct {
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

// run does the work; a phase that goes on at the same time shows the progress.
func (p *phase) run(s *session, shown *phase) {
	var bar *progress
	if shown == nil {
		bar = s.progress(p.name, p.goal, thousands)
		defer bar.end()
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	began := time.Now()
	var workers sync.WaitGroup
	for range min(int64(p.workers), p.goal) {
		workers.Go(func() {
			var times []time.Duration
			var err error
			for err == nil {
				left := p.goal - p.done.Load()
				if left <= 0 || p.started.Add(1) > p.goal {
					break
				}
				var n int
				start := time.Now()
				if n, err = p.work(ctx, left); err != nil {
					break
				}
				times = append(times, time.Since(start))
				done := p.done.Add(int64(n))
				if bar != nil {
					bar.set(done)
				}
				if done >= p.goal {
					cancel() // those who wait for more wait in vain
				}
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.times = append(p.times, times...)
			if err != nil && p.done.Load() < p.goal && p.err == nil {
				p.err = fmt.Errorf("%s: %w", p.name, err)
				cancel()
			}
		})
	}
	workers.Wait()
	p.took = time.Since(began)
}

// summary says how it went.
func (p *phase) summary(s *session, size int) error {
	slices.Sort(p.times)
	at := func(q float64) time.Duration { return p.times[int(q*float64(len(p.times)-1))] }
	rate := float64(p.done.Load()) / p.took.Seconds()
	if s.global.json {
		return s.printJSON(map[string]any{
			"phase": p.name, "items": p.done.Load(), "seconds": p.took.Seconds(), "per_second": rate,
			"p50": at(0.5).Seconds(), "p90": at(0.9).Seconds(), "p99": at(0.99).Seconds(), "max": at(1).Seconds(),
		})
	}
	return s.printf("%-9s %s in %s  %s/s  %.1f MiB/s  p50 %s  p90 %s  p99 %s  max %s",
		p.name, many(p.done.Load(), "item"), span(p.took), thousands(int64(rate)), rate*float64(size)/(1<<20),
		milli(at(0.5)), milli(at(0.9)), milli(at(0.99)), milli(at(1)))
}

// milli writes a latency.
func milli(d time.Duration) string { return fmt.Sprintf("%.2fms", d.Seconds()*1000) }
