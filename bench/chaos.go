package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The faults of a public comparison of queues on PostgreSQL, each on a server of its own:
// half a phase to warm up, a phase as baseline, the fault, a phase after it.

// fault is what is done to a queue, for so many phases. It returns when its last blow was.
type fault struct {
	name     string
	theirs   string // its name in the comparison
	replicas int
	rate     int // jobs a second of all replicas
	phases   int
	strike   func(ctx context.Context, t *trial, phase time.Duration) (time.Time, error)
}

const (
	cutsASecond = 2
	idlers      = 300
	scanners    = 4
	moreLoad    = 1.5
	killsAPhase = 3
)

var faults = []fault{
	{"a replica of two is killed, and started a phase later", "chaos_crash_recovery", 2, 600, 2, func(ctx context.Context, t *trial, phase time.Duration) (time.Time, error) {
		t.replicas[0].kill()
		killed := time.Now()
		pause(ctx, phase)
		return killed, t.launch(0)
	}},
	{"a replica of two is killed three times a phase", "chaos_repeated_kills", 2, 600, 2, func(ctx context.Context, t *trial, phase time.Duration) (killed time.Time, err error) {
		for range 2*killsAPhase - 1 {
			t.replicas[0].kill()
			killed = time.Now()
			if err := t.launch(0); err != nil {
				return killed, err
			}
			pause(ctx, phase/killsAPhase)
		}
		return killed, nil
	}},
	{"the server is stopped for half a phase", "chaos_postgres_restart", 1, 600, 1, func(ctx context.Context, t *trial, phase time.Duration) (time.Time, error) {
		p := t.server.processes[0]
		if err := p.cmd.Process.Signal(t.contender.stop); err != nil {
			return time.Time{}, err
		}
		<-p.done
		pause(ctx, phase/2)
		started := time.Now()
		var err error
		t.server.processes[0], err = p.again()
		return started, err
	}},
	{"all connections are cut, twice a second", "chaos_pg_backend_kill", 1, 600, 1, func(ctx context.Context, t *trial, phase time.Duration) (last time.Time, err error) {
		for range int(phase.Seconds() * cutsASecond) {
			if err := t.contender.cut(ctx, t.server.addr); err != nil {
				return last, err
			}
			last = time.Now()
			pause(ctx, time.Second/cutsASecond)
		}
		return last, nil
	}},
	{"300 idle connections", "chaos_pool_exhaustion", 1, 600, 1, func(ctx context.Context, t *trial, phase time.Duration) (time.Time, error) {
		for range idlers {
			c, err := t.contender.idle(ctx, t.server.addr)
			if err != nil {
				return time.Time{}, err
			}
			defer c.Close()
		}
		pause(ctx, phase)
		return time.Now(), nil
	}},
	{"a client holds what it can", "idle_in_tx_saturation", 1, 800, 1, during(1, func(ctx context.Context, t *trial) error {
		return t.contender.hold(ctx, t.server.addr)
	})},
	{"four clients read the queue again and again", "active_readers", 1, 800, 1, during(scanners, func(ctx context.Context, t *trial) error {
		return t.contender.scan(ctx, t.server.addr)
	})},
	{"half as much load again", "sustained_high_load", 1, 800, 1, func(ctx context.Context, t *trial, phase time.Duration) (time.Time, error) {
		if err := t.load(moreLoad); err != nil {
			return time.Time{}, err
		}
		pause(ctx, phase)
		return time.Now(), t.load(1)
	}},
}

// during is a fault that consists of n clients.
func during(n int, run func(context.Context, *trial) error) func(context.Context, *trial, time.Duration) (time.Time, error) {
	return func(ctx context.Context, t *trial, phase time.Duration) (time.Time, error) {
		ctx, cancel := context.WithTimeout(ctx, phase)
		defer cancel()
		err := together(ctx, n, func(ctx context.Context) error { return run(ctx, t) })
		return time.Now(), err
	}
}

// trial is a contender under a fault.
type trial struct {
	site      *site
	contender *contender
	fault     *fault
	server    *server
	replicas  []*replica
	launched  int
	factor    float64 // of the rate

	mu     sync.Mutex
	ledger ledger
	errs   []error
}

// replica is a process that makes jobs and works on them.
type replica struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	read   chan struct{} // closed when everything that it wrote was read
	killed bool
}

func (p *replica) kill() {
	p.killed = true
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.read
	_ = p.cmd.Wait() // it was killed
}

// launch starts a replica in the place of one that is gone.
func (t *trial) launch(i int) error {
	t.launched++
	p := &replica{read: make(chan struct{})}
	p.cmd = exec.Command(t.site.self, "replica", t.contender.name, t.server.addr, strconv.Itoa(t.launched))
	log, err := os.OpenFile(t.server.dir+"-replicas.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Stderr = log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(p.read)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			e, err := parseEvent(lines.Text())
			t.mu.Lock()
			if err == nil {
				t.ledger.enter(e)
			} else {
				t.errs = append(t.errs, err)
			}
			t.mu.Unlock()
		}
	}()
	t.replicas[i] = p
	return t.tell(p)
}

// tell gives a replica its part of the rate.
func (t *trial) tell(p *replica) error {
	_, err := fmt.Fprintln(p.stdin, int(t.factor*float64(t.fault.rate))/t.fault.replicas)
	return err
}

// load changes the rate of all replicas.
func (t *trial) load(factor float64) error {
	t.factor = factor
	for _, p := range t.replicas {
		if err := t.tell(p); err != nil {
			return fmt.Errorf("a replica has ended by itself: %w", err)
		}
	}
	return nil
}

// ledger is what became of the jobs.
type ledger struct {
	stored map[string]bool
	done   map[string]int
	ends   []end
}

// end is when a job was done.
type end struct{ due, at time.Time }

func (l *ledger) enter(e event) {
	if !e.done {
		l.stored[e.job] = true
		return
	}
	l.done[e.job]++
	l.ends = append(l.ends, end{e.due, e.at})
}

// lost is how many jobs were stored and not done, and doubled how many were done more than once.
func (l *ledger) lost() (n int) {
	for job := range l.stored {
		if l.done[job] == 0 {
			n++
		}
	}
	return n
}

func (l *ledger) doubled() (n int) {
	for _, times := range l.done {
		if times > 1 {
			n++
		}
	}
	return n
}

// figures are of the jobs that were done in a time.
type figures struct {
	rate     float64
	p50, p99 time.Duration // from when a job was due until it was done
}

func (l *ledger) between(from, to time.Time) (f figures) {
	var took []time.Duration
	for _, e := range l.ends {
		if !e.at.Before(from) && e.at.Before(to) {
			took = append(took, e.at.Sub(e.due))
		}
	}
	if len(took) == 0 {
		return f
	}
	slices.Sort(took)
	f.rate = float64(len(took)) / to.Sub(from).Seconds()
	part := func(p float64) time.Duration { return took[int(p*float64(len(took)-1))] }
	f.p50, f.p99 = part(0.5), part(0.99)
	return f
}

const (
	nearly = 0.9         // of the baseline's rate is as good as before
	late   = time.Second // that a job may take
)

// again is how long after an instant, and before another, there was the first second with nearly a rate.
func (l *ledger) again(from, to time.Time, rate float64) (time.Duration, bool) {
	for begin := from; !begin.Add(time.Second).After(to); begin = begin.Add(100 * time.Millisecond) {
		if l.between(begin, begin.Add(time.Second)).rate >= nearly*rate {
			return begin.Sub(from), true
		}
	}
	return 0, false
}

// caughtUp is how long after an instant the last late job was done.
func (l *ledger) caughtUp(from time.Time) (last time.Duration) {
	for _, e := range l.ends {
		if e.at.Sub(e.due) > late {
			last = max(last, e.at.Sub(from))
		}
	}
	return last
}

// silence is how long nothing is done before what is left is taken for lost: longer than
// leases, and than what River waits before it rescues a job.
const silence = 90 * time.Second

// drain waits until all jobs are done, or nothing happens any more.
func (t *trial) drain(ctx context.Context) error {
	if err := t.load(0); err != nil {
		return err
	}
	done, since := -1, time.Now()
	for ctx.Err() == nil && time.Since(since) < silence {
		pause(ctx, replicaTick*50)
		t.mu.Lock()
		lost, ends := t.ledger.lost(), len(t.ledger.ends)
		t.mu.Unlock()
		if ends != done {
			done, since = ends, time.Now()
		} else if lost == 0 && time.Since(since) > 2*time.Second {
			return nil // what was on its way has arrived
		}
	}
	return ctx.Err()
}

// endure runs a contender through a fault.
func (r *runner) endure(ctx context.Context, c *contender, f *fault) (row []string, err error) {
	name := "chaos-" + c.name
	t := &trial{
		site: r.site, contender: c, fault: f, factor: 1, replicas: make([]*replica, f.replicas),
		server: &server{system: systemNamed(c.system), name: name, dir: filepath.Join(r.site.dir, name)},
		ledger: ledger{stored: make(map[string]bool), done: make(map[string]int)},
	}
	if err := os.RemoveAll(t.server.dir); err != nil {
		return nil, err
	}
	if err := c.start(ctx, r.site, t.server); err != nil {
		return nil, err
	}
	defer func() { t.server.kill() }()
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := t.server.patiently(starting, func() error { return c.prepare(starting, t.server.addr) }); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, t.server.processes[0].lastWords())
	}
	defer func() {
		for _, p := range t.replicas {
			if p != nil {
				p.kill()
			}
		}
	}()
	for i := range t.replicas {
		if err := t.launch(i); err != nil {
			return nil, err
		}
	}
	phase := r.plan.phase
	pause(ctx, phase/2)
	baseline := time.Now()
	pause(ctx, phase)
	began := time.Now()
	blow, err := f.strike(ctx, t, phase)
	if err != nil {
		return nil, err
	}
	pause(ctx, time.Until(began.Add(time.Duration(f.phases)*phase)))
	ended := time.Now()
	pause(ctx, phase)
	after := time.Now()
	if err := t.drain(ctx); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := errors.Join(t.errs...); err != nil {
		return nil, err
	}
	l := &t.ledger
	before := l.between(baseline, began)
	row = []string{f.name + ": " + c.name}
	var rates, times []string
	for _, f := range []figures{before, l.between(began, ended), l.between(ended, after)} {
		rates = append(rates, number(f.rate))
		times = append(times, millis(f.p50)+" / "+millis(f.p99))
	}
	row = append(append(row, strings.Join(rates, ", ")), times...)
	back := "never"
	if d, is := l.again(blow, after, before.rate); is {
		back = inSeconds(d)
	}
	return append(row, back, inSeconds(l.caughtUp(blow)), strconv.Itoa(l.lost()), strconv.Itoa(l.doubled())), nil
}

func millis(d time.Duration) string { return number(float64(d) / float64(time.Millisecond)) }

func inSeconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// measureFaults runs every contender through every fault.
func (r *runner) measureFaults(ctx context.Context, o options) error {
	t := table{{"", "jobs a second: before, during, after", "before, p50 / p99 ms", "during", "after", "rate back", "caught up", "lost", "doubled"}}
	for i := range faults {
		for _, c := range contenders {
			f := &faults[i]
			if c.only != "" && c.only != f.theirs || !o.only.MatchString(f.theirs+" "+c.name) || systemNamed(c.system).missing() {
				continue
			}
			row, err := r.endure(ctx, c, f)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", c.name, f.theirs, err)
			}
			t.add(row...)
			r.progress("%v", row)
		}
	}
	var text strings.Builder
	m := &r.results.Machine
	fmt.Fprintf(&text, "%s, pqbridge %s, phases of %s. %s.\n\n", m.Began.UTC().Format("2006-01-02 15:04 UTC"), m.Commit, r.plan.phase, m)
	t.write(&text)
	if _, err := os.Stdout.WriteString(text.String()); err != nil {
		return err
	}
	return r.results.file(o, text.String())
}
