package main

import (
	"context"
	"os"
	"slices"
	"syscall"
	"time"
)

// deepPlan says how a queue is looked at that holds very many items.
type deepPlan struct {
	items  int
	pops   int // in bulk, before it is measured again
	rounds int
	phase  time.Duration
	limit  time.Duration // of filling, and of draining
	of     []string      // systems: one of each kind, and none that an fsync for each item would keep busy for hours
}

// deepClients is the number of clients that measure; fillers fill and drain.
const (
	deepClients = 64
	fillers     = 16
)

// depth is what was found out about a server with a deep queue, besides the
// samples.
type depth struct {
	System    string
	Items     int
	Fill      time.Duration
	Memory    int64         // the most that was seen
	Disk      int64         // when full
	Start     time.Duration // with the full queue, until the first pop was answered
	Drain     time.Duration
	DiskAfter int64 // after the drain, when it shrank no more
}

// settleLimit is how long a drained store may take to give back its space.
const settleLimit = 2 * time.Minute

// deepen looks at each system with a deep queue, one after another, in turns
// with the one that has the usual backlog.
func (r *runner) deepen(ctx context.Context) error {
	for _, srv := range r.servers {
		if !slices.Contains(r.plan.deep.of, srv.system.name) {
			continue
		}
		if err := r.deepOne(ctx, srv); err != nil {
			if ctx.Err() != nil {
				return err
			}
			r.results.note("%s with a deep queue: %v", srv.system.name, err)
		}
	}
	return nil
}

func (r *runner) deepOne(ctx context.Context, shallow *server) error {
	plan := r.plan.deep
	r.progress("%s: filling", shallow.system.name)
	srv, err := r.site.open(ctx, shallow.system, directory(shallow.system)+"-deep", nil)
	if err != nil {
		return err
	}
	defer os.RemoveAll(srv.dir)
	defer srv.kill()

	d := depth{System: srv.system.name}
	bulk := func(verb string, n int) (measure, error) {
		measures, err := r.site.drive(ctx, srv, fillers, step{Verb: verb, N: n, Limit: plan.limit, Warm: true})
		if err != nil {
			return measure{}, err
		}
		return measures[0], nil
	}
	m, err := bulk(verbFill, plan.items)
	if err != nil {
		return err
	}
	if d.Items = m.N; m.N < plan.items {
		r.results.note("%s took in %s items in %s: it was measured with these", d.System, number(float64(m.N)), plan.limit)
	}
	d.Fill = seconds(m.Seconds)
	syscall.Sync()
	r.progress("%s: %s items after %s", d.System, number(float64(d.Items)), d.Fill)
	if err := r.compare(ctx, shallow, srv, backlogDeep, &d); err != nil {
		return err
	}
	if d.Disk, err = srv.disk(); err != nil {
		return err
	}
	if err := srv.stop(); err != nil {
		return err
	}
	start := time.Now()
	if err := srv.start(ctx, r.site); err != nil {
		return err
	}
	d.Start = time.Since(start)
	r.progress("%s: started again in %s", d.System, d.Start.Round(time.Millisecond))
	if m, err = bulk(verbDrain, min(plan.pops, d.Items/2)); err != nil {
		return err
	}
	popped := m.N
	d.Drain = seconds(m.Seconds)
	if err := r.compare(ctx, shallow, srv, backlogAfter, &d); err != nil {
		return err
	}
	if m, err = bulk(verbDrain, d.Items-popped); err != nil {
		return err
	}
	d.Drain += seconds(m.Seconds)
	if popped += m.N; popped < d.Items {
		r.results.note("%s gave %s items in %s", d.System, number(float64(popped)), d.Drain)
	}
	if d.DiskAfter, err = settled(ctx, srv); err != nil {
		return err
	}
	r.progress("%s: drained", d.System)
	r.results.Depths = append(r.results.Depths, d)
	return srv.stop()
}

// compare has the deep queue and the one with the usual backlog take turns.
func (r *runner) compare(ctx context.Context, shallow, deep *server, label string, d *depth) error {
	usual := r.plan
	defer func() { r.plan = usual }()
	r.plan.phase = r.plan.deep.phase
	for round := range r.plan.deep.rounds {
		for _, turn := range []struct {
			srv   *server
			label string
		}{{shallow, backlogBeside}, {deep, label}} {
			if turn.srv == shallow {
				deep.freeze()
			}
			if err := r.turn(ctx, turn.srv, round, deepClients, turn.label); err != nil {
				return err
			}
			deep.thaw()
		}
		memory, err := deep.memory()
		if err != nil {
			return err
		}
		d.Memory = max(d.Memory, memory)
	}
	return nil
}

// settled waits until the server's files shrink no more.
func settled(ctx context.Context, srv *server) (int64, error) {
	const still = 10 * time.Second
	least, since := int64(-1), time.Now()
	for deadline := time.Now().Add(settleLimit); time.Now().Before(deadline) && time.Since(since) < still; {
		bytes, err := srv.disk()
		if err != nil {
			return 0, err
		}
		if least < 0 || bytes < least {
			least, since = bytes, time.Now()
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return least, nil
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}
