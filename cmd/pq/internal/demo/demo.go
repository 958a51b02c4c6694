// Package demo shows what pqbridge is for: steps with queues of its own, each of which compares what it shows with what the queues say.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// Options say how the demo runs.
type Options struct {
	Alone bool          // with a pqd of its own
	Keep  bool          // the queues stay
	Pause time.Duration // between steps, to read
}

// step is a part of the demo. It fails if the queues do not do what it promises.
type step struct {
	title string
	show  func(ctx context.Context, d *demo, p *page) error
}

var steps = []step{
	{"Urgent items go first", urgentFirst},
	{"Tenants take turns by their weights", takeTurns},
	{"A budget of cost is corrected by the truth", spendBudget},
	{"A job fails and is tried again, another one dies", failAndDie},
	{"A worker hangs, and another one gets its item", hang},
	{"A caller waits for a result, another one gives up", call},
	{"A schedule pushes an item each second", tick},
}

// stepLimit bounds a step, the longest of which waits for some seconds.
const stepLimit = 30 * time.Second

// demo is one run.
type demo struct {
	session *session.Session
	client  *client.Client
	options Options
	steps   []step
	where   string // what another terminal needs to look at the same pqd, "" for nothing
	console string
}

// Run shows all steps. Its error names those that failed.
func Run(s *session.Session, o Options) error { return run(s, o, steps) }

func run(s *session.Session, o Options, steps []step) (err error) {
	signal.Ignore(syscall.SIGPIPE) // nobody may read to the end, and what was made has to go nevertheless
	defer func() {
		if errors.Is(err, syscall.EPIPE) { // who does not read needs no words about it
			err = session.ExitError(session.ExitFailed)
		}
	}()
	d := &demo{
		session: s, options: o, steps: steps,
		console: "http://127.0.0.1:8622/, unless PQ_HTTP of pqd says otherwise",
	}
	if o.Alone {
		own, err := start(s)
		if err != nil {
			return err
		}
		defer own.stop()
		if err := s.ConnectTo(own.nats); err != nil {
			return err
		}
		d.where, d.console = "export NATS_URL="+own.nats, own.console
	}
	if d.client, err = s.Connect(); err != nil {
		return err
	}
	own := &queues{client: d.client}
	ctx, release, err := own.take(s.Context)
	defer func() { err = errors.Join(err, d.leave(own, release)) }()
	if err != nil {
		return err
	}
	err = d.showAll(ctx)
	if !o.Keep || !o.Alone || s.Context.Err() != nil {
		return err
	}
	if sayErr := d.say("pqd goes on, with the queues, until Ctrl-C."); sayErr != nil {
		return errors.Join(err, sayErr)
	}
	<-s.Context.Done()
	return errors.Join(err, session.Interrupted(s.Context, s.Context.Err()))
}

// removeLimit is how long the queues are tried to be deleted at least, all together: where nobody answers, each takes a while.
const removeLimit = 10 * time.Second

// leave deletes the queues, or says which ones stay. It does so after Ctrl-C, too.
func (d *demo) leave(own *queues, release func()) error {
	release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.session.Context), max(removeLimit, d.session.Global.Timeout))
	defer cancel()
	left, err := own.remove(ctx, d.options.Keep)
	if err != nil {
		d.session.Unfinished = "Left: " + strings.Join(left, ", ") + `. The next "pq demo" deletes them.`
		return err
	}
	if len(left) == 0 || d.options.Alone {
		return nil
	}
	return d.say("The queues stay. The next pq demo deletes them.")
}

// say prints a paragraph for people.
func (d *demo) say(lines ...string) error {
	if d.session.Global.JSON {
		return nil
	}
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(wrap(line, "", "  "))
	}
	return d.session.Printf("%s", strings.TrimSuffix(text.String(), "\n"))
}

// showAll shows all steps, also those behind one that fails: each has queues of its own.
func (d *demo) showAll(ctx context.Context) error {
	began := time.Now()
	if err := d.introduce(ctx); err != nil {
		return err
	}
	var failed []string
	for at, step := range d.steps {
		if err := d.pause(ctx); err != nil {
			return err
		}
		ok, err := d.showOne(ctx, at+1, step)
		if err != nil {
			return err
		}
		if !ok {
			failed = append(failed, fmt.Sprintf("%d (%s)", at+1, step.title))
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d steps failed: %s", len(failed), len(d.steps), strings.Join(failed, ", "))
	}
	end := ""
	if !d.options.Keep && !d.options.Alone {
		end = " Their queues go now; with --keep they stay."
	}
	return d.say("", fmt.Sprintf("All %d steps did what they promise, in %s.%s Go on with: pq help tutorial", len(d.steps), show.Span(time.Since(began).Round(time.Second)), end))
}

// introduce says where all of that happens.
func (d *demo) introduce(ctx context.Context) error {
	system, err := d.client.System(ctx)
	if err != nil {
		return err
	}
	lines := []string{
		fmt.Sprintf("pqd %s on %s, store %s", system.Version, d.session.NC.ConnectedUrlRedacted(), system.Store),
		"Queues of this demo: " + strings.Join(names, ", "),
		"Look in another terminal: pq top; pq doctor",
		"Look in a browser: " + d.console,
	}
	if d.where != "" {
		lines[2] = fmt.Sprintf("Look in another terminal: %s; pq top", d.where)
	}
	return d.say(lines...)
}

// pause gives time to read.
func (d *demo) pause(ctx context.Context) error {
	if d.session.Global.JSON {
		return ctx.Err()
	}
	timer := time.NewTimer(d.options.Pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ended(ctx)
}

// ended is why a demo cannot go on, nil if it can.
func ended(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, client.ErrLeaseLost):
		return fmt.Errorf("the lease of the demo has run out, or somebody has deleted its queues: %w", cause)
	default:
		return cause
	}
}

// showOne shows a step, and returns whether it did what it promises. It returns an error where further steps make no sense.
func (d *demo) showOne(ctx context.Context, number int, step step) (ok bool, err error) {
	p := &page{demo: d, number: number, title: step.title}
	if err := p.begin(); err != nil {
		return false, err
	}
	limited, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	began := time.Now()
	failure := step.show(limited, d, p)
	if err := ended(ctx); err != nil {
		return false, err
	}
	return failure == nil, errors.Join(p.err, p.end(failure, time.Since(began)))
}
