//go:build fdb && benchfdb

package performance_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A task is a load: clients that do the same thing again and again. It runs in a
// process of its own, this test binary again, because clients of a cluster
// that share a process share its one connection and network thread.
type task struct {
	Kind        string // a key of kinds
	Clients     int
	Cluster     string // the cluster file
	Prefix      []byte // of the store in the cluster
	URL         string // of NATS
	Connections int    // to it, which the clients share
	Queues      spread
	Seed        uint64  // of what happens at random
	Asks        int     // of queues, at most
	Rate        float64 // requests that are due in a second; 0: each client sends the next one when it has its answer
	Warm        time.Duration
	Time        time.Duration
}

// measure is what a load did after it had warmed up.
type measure struct {
	Done      int64
	Conflicts int64 // transactions that ran in vain, where the clients themselves run them
	P50, P99  time.Duration
}

// kinds are the kinds of work of clients.
var kinds = map[string]func(*testing.T, task) work{}

// work is what a load's clients do.
type work struct {
	client    func() func() error // makes a client, which does one thing each time it is called
	conflicts func() int64        // so far; nil: unknown
}

const (
	loadVariable = "PQ_TEST_LOAD" // tells TestLoad what to do
	loadReady    = "ready"
	loadResult   = "result "
)

// TestLoad is the process that a load runs in.
func TestLoad(t *testing.T) {
	description := os.Getenv(loadVariable)
	if description == "" {
		t.Skip("runs in a process of its own only")
	}
	var l task
	if err := json.Unmarshal([]byte(description), &l); err != nil {
		t.Fatal(err)
	}
	w := kinds[l.Kind](t, l)
	var ops []func() error
	for range l.Clients {
		ops = append(ops, w.client())
	}
	fmt.Println(loadReady)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	var m measure
	var err error
	if l.Rate > 0 {
		m, err = l.arrive(ops)
	} else {
		m, err = l.run(ops, w.conflicts)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(loadResult + string(out))
}

// run keeps the clients at work and counts once they are warm.
func (l *task) run(ops []func() error, conflicts func() int64) (measure, error) {
	if conflicts == nil {
		conflicts = func() int64 { return 0 }
	}
	begin := time.Now().Add(l.Warm)
	end := begin.Add(l.Time)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		all  []time.Duration
		errs []error
		stop atomic.Bool
	)
	for _, op := range ops {
		wg.Go(func() {
			var took []time.Duration
			var err error
			for !stop.Load() {
				started := time.Now()
				if err = op(); err != nil {
					break
				}
				ended := time.Now()
				if ended.After(end) {
					break
				}
				if ended.After(begin) {
					took = append(took, ended.Sub(started))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if all = append(all, took...); err != nil {
				stop.Store(true)
				errs = append(errs, err)
			}
		})
	}
	<-time.After(time.Until(begin))
	before := conflicts()
	<-time.After(time.Until(end))
	after := conflicts()
	wg.Wait()
	if len(errs) > 0 {
		return measure{}, errors.Join(errs...)
	}
	m := measureOf(all)
	m.Conflicts = after - before
	return m, nil
}

// measureOf tells of things that were done and took so long.
func measureOf(took []time.Duration) measure {
	m := measure{Done: int64(len(took))}
	if slices.Sort(took); len(took) > 0 {
		m.P50, m.P99 = took[len(took)/2], took[len(took)*99/100]
	}
	return m
}

// drive runs loads at the same time, each in its own process.
func drive(t *testing.T, loads ...task) (measures []measure) {
	t.Helper()
	var running []*exec.Cmd
	var lines []*bufio.Scanner
	var starts []io.WriteCloser
	for _, l := range loads {
		description, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestLoad$", "-test.count=1", "-test.timeout=2m")
		cmd.Env = append(os.Environ(), loadVariable+"="+string(description))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running, lines, starts = append(running, cmd), append(lines, bufio.NewScanner(out)), append(starts, in)
	}
	for i := range running {
		await(t, loads[i].Kind, lines[i], loadReady)
	}
	for _, in := range starts {
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
	}
	for i, cmd := range running {
		var m measure
		if err := json.Unmarshal([]byte(await(t, loads[i].Kind, lines[i], loadResult)), &m); err != nil {
			t.Fatal(err)
		}
		for lines[i].Scan() { // its last words, so that it can end
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("load %s: %v", loads[i].Kind, err)
		}
		measures = append(measures, m)
	}
	return measures
}

// sum adds up the results of equal loads. The slowest latency counts.
func sum(measures []measure) (all measure) {
	for _, m := range measures {
		all.Done += m.Done
		all.Conflicts += m.Conflicts
		all.P50, all.P99 = max(all.P50, m.P50), max(all.P99, m.P99)
	}
	return all
}

// await reads up to the line that begins with a word and returns its rest.
func await(t *testing.T, kind string, lines *bufio.Scanner, word string) string {
	t.Helper()
	var said []string
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), word); ok {
			return rest
		}
		said = append(said, lines.Text())
	}
	t.Fatalf("load %s ended early:\n%s", kind, strings.Join(said, "\n"))
	return ""
}
