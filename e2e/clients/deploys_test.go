package clients_test

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

var (
	flagJobs     = flag.Int("pq.jobs", 0, "jobs that workers do while they are restarted; 0: a few hundred")
	flagRestarts = flag.Int("pq.restarts", 0, "restarts of workers; 0: a few")
)

// Workers are restarted in turn while they do jobs of 50 ms. Whatever ends them, each job is done, and
// three tries suffice. An orderly stop counts as nothing, also where it interrupts a job. A SIGKILL
// counts one interruption for the lease that it loses.
func TestDeploys(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]struct {
		signal syscall.Signal
		grace  string // after it the stop interrupts the job
	}{
		"SIGTERM":             {syscall.SIGTERM, "1m"},
		"SIGTERM without end": {syscall.SIGTERM, "1ms"},
		"SIGKILL":             {syscall.SIGKILL, "1m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, "--lease", "2s", "--grace", d.grace)
			jobs, restarts := cmp.Or(*flagJobs, 300), cmp.Or(*flagRestarts, 10)
			f.push(jobs)
			f.hire(10, `echo begun $PQ_ID >> journal; sleep 0.05; echo done $PQ_ID $PQ_DELIVERIES $PQ_FAILURES $PQ_INTERRUPTIONS >> journal`)
			for i := range restarts {
				testenv.Await(t, "the workers go on", func() bool { return len(f.journal("done")) >= i*jobs/restarts })
				f.restart(i%10, d.signal)
			}
			f.awaitSettled()
			f.judge(d.signal == syscall.SIGKILL)
		})
	}
}

// A job that kills its worker is dead when it has had its tries, and with a backoff it leaves the other
// workers alone meanwhile.
func TestJobThatKillsItsWorker(t *testing.T) {
	t.Parallel()
	nightly.Only(t, "fdbpq has interruptions and the backoff by its model")
	const pause = 500 * time.Millisecond
	f := newFleet(t, "--lease", "1s")
	pqd.Request(t, f.nc, "pq.jobs.admin.config", `{"backoff":["500ms"]}`)
	id := pqd.PushMsg(t, f.nc, "pq.jobs.push", "x")
	f.hire(tries, `echo begun $PQ_ID >> journal; kill -9 $PPID`)
	testenv.Await(t, "the job is dead", func() bool { return f.events.count("dead") > 0 })
	// On a busy machine a lease may run out before the script begins, and the worker then ends it.
	if begun, lost := len(f.journal("begun")), f.events.count("lease_lost"); begun < 1 || begun > tries || lost != tries {
		t.Fatalf("the job was begun %d times and %d leases ran out, expected %d tries", begun, lost, tries)
	}
	letter := pqd.Request(t, f.nc, "pq.jobs-dead.peek.min", "")
	for header, want := range map[string]string{
		"PQ-Origin-Id": id, "PQ-Dead-Reason": "interruptions", "PQ-Dead-Interruptions": fmt.Sprint(tries),
		"PQ-Dead-Deliveries": fmt.Sprint(tries), "PQ-Deliveries": "0", "PQ-Interruptions": "",
	} {
		if got := letter.Header.Get(header); got != want {
			t.Errorf("%s of the dead letter is %q, expected %q", header, got, want)
		}
	}
	all := attempts(t, f.nc, "jobs-dead", letter.Header.Get("PQ-Id"))
	if len(all) != tries {
		t.Fatalf("the dead letter remembers %+v, expected %d attempts", all, tries)
	}
	for i, a := range all[1:] {
		if still := a.Start.Sub(all[i].End); still < pause-slack {
			t.Errorf("a worker got the job %s after another one had lost it", still)
		}
	}
}

// tries are the max_deliveries of the jobs.
const tries = 3

// fleet is pq consume in several processes, of which each has one job at a time. Who ends is replaced.
type fleet struct {
	*testing.T
	nc      *nats.Conn
	url     string
	dir     string // of the workers
	pq      string
	flags   []string
	events  *happened
	ids     []string
	workers []*place
	closed  atomic.Bool
}

// place is where one worker works after the other.
type place struct {
	mu     sync.Mutex
	worker *exec.Cmd
	hired  int
}

func newFleet(t *testing.T, flags ...string) *fleet {
	t.Helper()
	p := testenv.Daemon(t)
	f := &fleet{T: t, nc: p.Connect(t), url: p.URL, dir: t.TempDir(), pq: testenv.Build(t, "cmd/pq"), flags: flags, events: new(happened)}
	if _, err := f.nc.Subscribe("pq.jobs.event.*", f.events.add); err != nil {
		t.Fatal(err)
	}
	pqd.Request(t, f.nc, "pq.jobs.admin.config", fmt.Sprintf(`{"max_deliveries":%d}`, tries))
	return f
}

func (f *fleet) push(jobs int) {
	for range jobs {
		f.ids = append(f.ids, pqd.PushMsg(f.T, f.nc, "pq.jobs.push", "x"))
	}
}

// hire has workers run a script for each job, until the test ends.
func (f *fleet) hire(n int, script string) {
	f.Helper()
	var places sync.WaitGroup
	for range n {
		p := new(place)
		f.workers = append(f.workers, p)
		places.Go(func() {
			for !f.closed.Load() {
				if err := f.work(p, script); err != nil {
					if f.Context().Err() != nil {
						return // the test has ended
					}
					f.Errorf("a worker did not start: %v", err)
					return
				}
			}
		})
	}
	f.Cleanup(func() {
		f.closed.Store(true)
		for i := range f.workers {
			f.end(i, syscall.SIGKILL)
		}
		places.Wait()
	})
}

// work has a worker work until it ends.
func (f *fleet) work(p *place, script string) error {
	args := append([]string{"consume", "jobs"}, f.flags...)
	cmd := pqd.Command(f.T, f.pq, append(args, "--", "sh", "-c", script)...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "HOME="+f.dir, "NATS_URL="+f.url)
	cmd.WaitDelay = 0 // its output is nobody's
	p.mu.Lock()
	if f.closed.Load() {
		p.mu.Unlock()
		return nil
	}
	err := cmd.Start()
	p.worker, p.hired = cmd, p.hired+1
	p.mu.Unlock()
	if err == nil {
		_ = cmd.Wait() // somebody ends it
	}
	return err
}

// end sends a signal to the worker of a place.
func (f *fleet) end(i int, signal syscall.Signal) {
	p := f.workers[i]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.worker != nil && p.worker.Process != nil {
		_ = p.worker.Process.Signal(signal) // it may have ended just now
	}
}

// restart ends the worker of a place, and waits for the next one.
func (f *fleet) restart(i int, signal syscall.Signal) {
	p := f.workers[i]
	hired := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.hired
	}
	before := hired()
	f.end(i, signal)
	testenv.Await(f.T, "a worker is replaced", func() bool { return hired() > before })
}

// journal returns the lines of a kind that the scripts have written, in fields behind the kind.
func (f *fleet) journal(kind string) (lines [][]string) {
	f.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "journal"))
	if err != nil && !os.IsNotExist(err) {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); strings.HasSuffix(line, "\n") && fields[0] == kind {
			lines = append(lines, fields[1:])
		}
	}
	return lines
}

// awaitSettled waits until no job is left in the queue.
func (f *fleet) awaitSettled() {
	f.Helper()
	testenv.AwaitAnswer(f.T, "all jobs are settled", func(ctx context.Context) bool {
		m, err := f.nc.RequestWithContext(ctx, "pq.jobs.info", nil)
		var info struct{ Ready, Leased, Delayed int }
		return err == nil && json.Unmarshal(m.Data, &info) == nil && info.Ready+info.Leased+info.Delayed == 0
	})
}

// judge compares the numbers of each job with the events, and with what the scripts have seen.
func (f *fleet) judge(kills bool) {
	f.Helper()
	begun, done := make(map[string]int), make(map[string][]string)
	for _, line := range f.journal("begun") {
		begun[line[0]]++
	}
	for _, line := range f.journal("done") {
		done[line[0]] = line[1:]
	}
	repeated := 0
	for _, id := range f.ids {
		if done[id] == nil {
			f.Errorf("job %s was not done", id)
			continue
		}
		deliveries, failures, interruptions := number(f.T, done[id][0]), number(f.T, done[id][1]), number(f.T, done[id][2])
		lost := f.events.of("lease_lost", id)
		repeated += deliveries - 1
		switch {
		case failures != 0:
			f.Errorf("job %s counts %d failures", id, failures)
		case interruptions != lost:
			f.Errorf("job %s counts %d interruptions, and %d leases ran out", id, interruptions, lost)
		case kills && begun[id]-1 > interruptions:
			f.Errorf("job %s was begun %d times, and counts %d interruptions", id, begun[id], interruptions)
		case !kills && interruptions != 0:
			f.Errorf("job %s counts %d interruptions, although no worker was killed", id, interruptions)
		case deliveries < begun[id]:
			f.Errorf("job %s was begun %d times, and counts %d deliveries", id, begun[id], deliveries)
		}
	}
	if n := f.events.count("dead"); n > 0 {
		f.Errorf("%d jobs are dead", n)
	}
	f.Logf("%d jobs, %d leases ran out, %d deliveries more than jobs", len(f.ids), f.events.count("lease_lost"), repeated)
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// happened are the events of a queue so far, by type.
type happened struct {
	mu     sync.Mutex
	byType map[string][]event
}

type event struct {
	ID        string
	NotBefore time.Time `json:"not_before"`
}

func (h *happened) add(m *nats.Msg) {
	var e event
	if json.Unmarshal(m.Data, &e) != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byType == nil {
		h.byType = make(map[string][]event)
	}
	kind := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	h.byType[kind] = append(h.byType[kind], e)
}

func (h *happened) count(kind string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byType[kind])
}

func (h *happened) of(kind, id string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.byType[kind] {
		if e.ID == id {
			n++
		}
	}
	return n
}

// due is when the items of events came back, or will.
func (h *happened) due(kind string) (all []time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.byType[kind] {
		all = append(all, e.NotBefore)
	}
	return all
}
