package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
)

// plan says how much is measured.
type plan struct {
	rounds  int
	phase   time.Duration // of each kind of operation, in each round
	clients []int
	limit   time.Duration // no turn begins later than that after the start
	deep    *deepPlan     // nil: leave it out
}

// backlog is how many items there are in every queue to begin with, and again
// after each turn.
const backlog = 10_000

// slow is how much longer than a phase an operation may take that is bounded by
// a number.
const slow = 5

// runner takes the measurements.
type runner struct {
	plan    plan
	site    *site
	out     io.Writer // progress
	servers []*server
	results results
}

func (r *runner) progress(format string, args ...any) {
	fmt.Fprintf(r.out, "%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// open starts a system and puts the backlog into it. One that does not start is
// a result, too.
func (r *runner) open(ctx context.Context, sys *system) error {
	if sys.missing() {
		r.results.note("%s was left out: %s is not installed (Debian's package %s)", sys.name, sys.program, sys.pack)
		return nil
	}
	var under *server
	if sys.name == nameEcho {
		if under = r.server(namePQD); under == nil {
			return errors.New("echo needs pqd to run")
		}
		under.thaw()
	}
	srv, err := r.site.open(ctx, sys, directory(sys), under)
	if err != nil {
		r.results.note("%s was left out: %v", sys.name, err)
		return ctx.Err()
	}
	r.servers = append(r.servers, srv)
	if sys.can(verbPop) {
		fill := step{Verb: verbFill, N: backlog, Limit: time.Minute, Warm: true}
		if _, err := r.site.drive(ctx, srv, fillers, fill); err != nil {
			return err
		}
	}
	srv.freeze()
	r.progress("started %s", sys.name)
	return nil
}

// directory is a name for files.
func directory(sys *system) string {
	name := []byte(sys.name)
	for i, b := range name {
		if !('a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9') {
			name[i] = '_'
		}
	}
	return string(name)
}

func (r *runner) server(system string) *server {
	for _, srv := range r.servers {
		if srv.system.name == system {
			return srv
		}
	}
	return nil
}

// openAll starts the systems. The echo service comes last: it lives on pqd.
func (r *runner) openAll(ctx context.Context, chosen []*system) error {
	var last []*system
	for _, sys := range chosen {
		if sys.name == nameEcho {
			last = append(last, sys)
			continue
		}
		if err := r.open(ctx, sys); err != nil {
			return err
		}
	}
	for _, sys := range last {
		if err := r.open(ctx, sys); err != nil {
			return err
		}
	}
	return nil
}

// closeAll ends all servers, the last one first.
func (r *runner) closeAll() error {
	var errs []error
	for i := len(r.servers) - 1; i >= 0; i-- {
		errs = append(errs, r.servers[i].stop())
	}
	r.servers = nil
	return errors.Join(errs...)
}

// killAll is for when it has to be quick.
func (r *runner) killAll() {
	for i := len(r.servers) - 1; i >= 0; i-- {
		r.servers[i].kill()
	}
	r.servers = nil
}

// measure has the systems take turns.
func (r *runner) measure(ctx context.Context) error {
	deadline := r.results.Machine.Began.Add(r.plan.limit)
	for round := range r.plan.rounds {
		if err := r.probeDisk(round); err != nil {
			return err
		}
		for _, clients := range r.plan.clients {
			for i := range r.servers {
				if time.Now().After(deadline) {
					r.results.note("the time was up in round %d of %d", round+1, r.plan.rounds)
					return nil
				}
				// Nobody is always first, or always behind the same one.
				srv := r.servers[(i+round)%len(r.servers)]
				if err := r.turn(ctx, srv, round, clients, backlogUsual); err != nil {
					return err
				}
			}
		}
		r.progress("round %d of %d is done", round+1, r.plan.rounds)
	}
	return nil
}

// turn measures one system with so many clients, while all others stand still.
// A system that fails is noted and asked again in the next round.
func (r *runner) turn(ctx context.Context, srv *server, round, clients int, label string) error {
	srv.thaw()
	defer srv.freeze()
	steps := r.plan.steps(srv.system)
	if clients == manyClients && label == backlogUsual {
		steps = append(steps, r.plan.manySteps(srv.system)...)
	}
	if echo := r.server(nameEcho); echo != nil && echo.under == srv && label == backlogUsual {
		echo.thaw()
		defer echo.freeze()
		steps = r.plan.amongEchoes(steps)
	}
	measures, err := r.site.drive(ctx, srv, clients, steps...)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.results.note("round %d, %d clients: %v", round+1, clients, err)
	}
	r.results.add(srv.system.name, clients, round, label, measures)
	// What it wrote and did not sync is written at its own expense.
	syscall.Sync()
	return nil
}

// amongEchoes puts an echo before and behind each step that is measured. The
// machine becomes faster and slower within seconds, which an echo in a turn of
// its own does not share.
func (p *plan) amongEchoes(steps []step) (all []step) {
	echo := step{Verb: verbEcho, Limit: p.phase / 2}
	all = append(all, step{Verb: verbEcho, Limit: p.phase / 5, Warm: true})
	for _, s := range steps {
		if !s.Warm && all[len(all)-1] != echo {
			all = append(all, echo)
		}
		all = append(all, s)
		if !s.Warm {
			all = append(all, echo)
		}
	}
	return all
}

// steps leave as many items as they found.
func (p *plan) steps(sys *system) []step {
	warm, long := p.phase/5, slow*p.phase
	steps := []step{{Verb: verbPush, Limit: warm, Warm: true}}
	if !sys.can(verbPop) {
		return append(steps, step{Verb: verbPush, Limit: p.phase}, step{Verb: verbPush, Limit: p.phase})
	}
	steps = append(steps,
		step{Verb: verbPop, Share: 1, Limit: long, Warm: true},
		step{Verb: verbPush, Limit: p.phase},
		step{Verb: verbPop, Share: 1, Limit: long},
		step{Verb: verbPush, Limit: p.phase})
	switch lease, leave := sys.can(verbLease), sys.can(verbLeave); {
	case lease && leave:
		steps = append(steps, step{Verb: verbLease, Share: 2, Limit: long}, step{Verb: verbLeave, Share: 2, Limit: long})
	case lease:
		steps = append(steps, step{Verb: verbLease, Share: 1, Limit: long})
	case leave:
		steps = append(steps, step{Verb: verbLeave, Share: 1, Limit: long})
	}
	return steps
}
