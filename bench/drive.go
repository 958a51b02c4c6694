package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// job is what a load process has to do: connect so many clients to a server
// and take the steps one after another.
type job struct {
	System  string
	Addr    string
	Clients int
	Servers []int // their processes, whose processor time is measured
	Steps   []step
}

// step is one kind of operation, until it was done N times or the time is up,
// whatever comes first.
type step struct {
	Verb   string
	N      int           `json:",omitempty"` // 0: until the time is up
	Share  int           `json:",omitempty"` // as often as the last push, or that share of it: 2 is half
	Limit  time.Duration // never longer
	Warm   bool          `json:",omitempty"` // not a result
	Spread spread        `json:",omitzero"`
}

// measure is how a step went.
type measure struct {
	Verb    string
	Warm    bool
	N       int
	Seconds float64
	P50     time.Duration
	P99     time.Duration
	CPU     time.Duration // that the servers used
	Load    time.Duration // that the load used itself
}

func (m *measure) rate() float64 { return float64(m.N) / m.Seconds }

// drive has a load process do a job. It is a process of its own so that its
// garbage, and its share of the processors, are nobody else's.
func (s *site) drive(ctx context.Context, srv *server, clients int, steps ...step) ([]measure, error) {
	j := job{System: srv.system.name, Addr: srv.addr, Clients: clients, Servers: srv.roots(), Steps: steps}
	input, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	limit := time.Minute
	for _, st := range j.Steps {
		limit += 2 * st.Limit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.self, "drive")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_, writeErr := in.Write(append(input, '\n'))
	var result struct {
		Measures []measure
		Error    string
	}
	readErr := json.NewDecoder(out).Decode(&result)
	in.Close()
	err = errors.Join(writeErr, readErr, cmd.Wait())
	if result.Error != "" {
		err = errors.New(result.Error)
	}
	if err != nil {
		err = fmt.Errorf("load on %s: %w", j.System, err)
	}
	return result.Measures, err
}

// driveMain is the load process: a job on standard input, the measures on
// standard output.
func driveMain(in io.Reader, out io.Writer) error {
	var j job
	if err := json.NewDecoder(bufio.NewReader(in)).Decode(&j); err != nil {
		return fmt.Errorf("expected a job on standard input: %w", err)
	}
	var result struct {
		Measures []measure
		Error    string
	}
	var err error
	if result.Measures, err = j.run(); err != nil {
		result.Error = err.Error()
	}
	return json.NewEncoder(out).Encode(result)
}

func (j *job) run() (measures []measure, err error) {
	sys := systemNamed(j.System)
	if sys == nil {
		return nil, fmt.Errorf("unknown system %q", j.System)
	}
	if sys.library != nil {
		return j.runLibrary(sys.library)
	}
	l := load{}
	defer func() { err = errors.Join(err, l.close()) }()
	for range j.Clients {
		c, err := sys.connect(j.Addr)
		if err != nil {
			return nil, fmt.Errorf("connect client %d of %d: %w", len(l.clients)+1, j.Clients, err)
		}
		l.clients = append(l.clients, c)
		l.items = append(l.items, newPayloads(rand.Uint64()))
	}
	pushed := 0
	for _, s := range j.Steps {
		if s.Share > 0 {
			s.N = max(1, pushed/s.Share)
		}
		servers, own := processorTime(j.Servers), ownTime()
		m, err := l.take(s)
		m.CPU, m.Load = processorTime(j.Servers)-servers, ownTime()-own
		if err != nil {
			return measures, fmt.Errorf("%s: %w", s.Verb, err)
		}
		if s.Verb == verbPush || s.Verb == verbPushMany {
			pushed = m.N
		}
		measures = append(measures, m)
	}
	return measures, nil
}

// load is a number of clients that work at the same time.
type load struct {
	clients []client
	items   []*payloads
	left    line // where there are items, after pushes to a spread
}

func (l *load) close() error {
	errs := make([]error, len(l.clients))
	var wg sync.WaitGroup
	for i, c := range l.clients {
		wg.Go(func() { errs[i] = c.close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// take takes one step with all clients.
func (l *load) take(s step) (measure, error) {
	if s.Verb == verbFill || s.Verb == verbDrain {
		return l.bulk(s)
	}
	var left atomic.Int64
	left.Store(1 << 62)
	if s.N > 0 {
		left.Store(int64(max(1, s.N/itemsOf(s.Verb))))
	}
	var over atomic.Bool
	timer := time.AfterFunc(s.Limit, func() { over.Store(true) })
	defer timer.Stop()
	times := make([][]time.Duration, len(l.clients))
	errs := make([]error, len(l.clients))
	names := s.Spread.names()
	start := time.Now()
	var wg sync.WaitGroup
	for i, c := range l.clients {
		wg.Go(func() {
			do := operation(c, s.Verb, l.items[i])
			if len(names) > 0 {
				do = operationOnQueues(c, s, names, &l.left, l.items[i])
			}
			for !over.Load() && left.Add(-1) >= 0 {
				before := time.Now()
				if errs[i] = do(); errs[i] != nil {
					over.Store(true)
					return
				}
				times[i] = append(times[i], time.Since(before))
			}
			errs[i] = c.settle()
		})
	}
	wg.Wait()
	seconds := time.Since(start).Seconds()
	all := slices.Concat(times...)
	slices.Sort(all)
	m := measure{Verb: s.Verb, Warm: s.Warm, N: len(all) * itemsOf(s.Verb), Seconds: seconds}
	if len(all) > 0 {
		m.P50, m.P99 = all[len(all)/2], all[len(all)*99/100]
	}
	return m, errors.Join(errs...)
}

func operation(c client, verb string, items *payloads) func() error {
	switch verb {
	case verbPush:
		return func() error {
			payload := items.next()
			return c.push(items.priority(), payload)
		}
	case verbPushMany, verbPopMany, verbLeaseMany:
		return operationOnMany(c, verb, items)
	case verbPop:
		return c.pop
	case verbLease:
		return c.lease
	case verbLeave:
		return c.leave
	case verbMixed:
		return func() error {
			payload := items.next()
			if err := c.push(items.priority(), payload); err != nil {
				return err
			}
			return c.pop()
		}
	case verbNext:
		if c, can := c.(interface{ next() error }); can {
			return c.next
		}
	case verbEcho:
		if c, can := c.(interface{ echo([]byte) error }); can {
			return func() error { return c.echo(items.next()) }
		}
	}
	return func() error { return fmt.Errorf("unknown verb %q", verb) }
}

// bulkPart is how many items are filled or drained between two looks at the
// clock.
const bulkPart = 10_000

func (l *load) bulk(s step) (measure, error) {
	var left, done atomic.Int64
	left.Store(int64(s.N))
	deadline := time.Now().Add(s.Limit)
	errs := make([]error, len(l.clients))
	start := time.Now()
	var wg sync.WaitGroup
	for i, c := range l.clients {
		wg.Go(func() {
			for time.Now().Before(deadline) {
				rest := left.Add(-bulkPart) + bulkPart
				if rest <= 0 {
					return
				}
				n := int(min(rest, bulkPart))
				if s.Verb == verbFill {
					errs[i] = c.fill(n, l.items[i])
				} else {
					errs[i] = c.drain(n)
				}
				if errs[i] != nil {
					return
				}
				done.Add(int64(n))
			}
		})
	}
	wg.Wait()
	return measure{Verb: s.Verb, Warm: s.Warm, N: int(done.Load()), Seconds: time.Since(start).Seconds()}, errors.Join(errs...)
}
