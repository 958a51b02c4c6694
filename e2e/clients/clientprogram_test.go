package clients_test

import (
	"bufio"
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/testenv"
)

// clientProgram is a program of a client's tests that runs.
type clientProgram struct {
	name  string
	cmd   *exec.Cmd
	lines chan string // of its output; closed when it ends
}

// startProgram starts a program and waits until it is ready.
func startProgram(t *testing.T, p *testenv.Process, nats, interpreter string, env []string, args ...string) *clientProgram {
	t.Helper()
	c := &clientProgram{name: fmt.Sprint(args), lines: make(chan string, 1<<16)}
	c.cmd = p.Command(t, interpreter, args...)
	c.cmd.Env = append(append(c.cmd.Env, env...), "NATS_URL="+nats)
	c.cmd.Stderr = t.Output()
	output, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			c.lines <- scanner.Text()
		}
	}()
	if line := <-c.lines; line != "ready" {
		t.Fatalf("%s begins with %q", c.name, line)
	}
	return c
}

// end waits for the end of a program, after SIGTERM if it does not end by itself, and returns what
// it has printed and nobody has read.
func (c *clientProgram) end(t *testing.T, signal bool) (rest []string) {
	t.Helper()
	if signal {
		if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
	}
	for line := range c.lines {
		rest = append(rest, line)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("%s ended with %v", c.name, err)
	}
	return rest
}

// killWhileProgramsRun kills pqd and starts it again while a program pushes and two others take the
// items, and before each kill the answers to what is under way are lost.
func killWhileProgramsRun(t *testing.T, role string, items, kills int, start func(p *testenv.Process, nats string, args ...string) *clientProgram) {
	t.Helper()
	p := testenv.Daemon(t)
	network := testenv.NewProxy(t, p.URL)
	takers := []*clientProgram{start(p, network.URL(), role, "jobs"), start(p, network.URL(), role, "jobs")}
	pusher := start(p, network.URL(), "push", "jobs", fmt.Sprint(items))
	eachOnce(t, pusher, takers, items, kills, func(int) {
		network.LoseAnswers()
		nc := p.Connect(t)
		for range 20 { // meanwhile pqd does what is under way, in vain
			queueInfo(t, nc, "jobs")
		}
		p.Kill(t)
		network.Cut()
		p.Start(t)
	})
	nc := p.Connect(t)
	if info := queueInfo(t, nc, "jobs"); info.Ready+info.Leased+info.Delayed != 0 {
		t.Errorf("left are %+v", info)
	}
	p.Stop(t)
}

// eachOnce ends the programs when each item was acknowledged to its pusher once, and done once, as
// their output says. Meanwhile it disturbs them so many times.
func eachOnce(t *testing.T, pusher *clientProgram, takers []*clientProgram, items, times int, disturb func(time int)) {
	t.Helper()
	counts := map[string]int{}
	late := time.NewTimer(testenv.Patience())
	defer late.Stop()
	count := func(line string, ok bool) {
		if !ok {
			t.Fatal("a program ended")
		}
		counts[line]++
	}
	pushed, every := pusher.lines, 2*items/(times+1)
	for lines := 0; lines < 2*items; lines++ {
		late.Reset(testenv.Patience())
		if lines%every == every-1 && lines < 2*items-1 {
			disturb(lines / every)
		}
		select {
		case line, ok := <-pushed:
			if ok {
				count(line, true)
				continue
			}
			pushed = nil // it is done
			lines--
		case line, ok := <-takers[0].lines:
			count(line, ok)
		case line, ok := <-takers[1].lines:
			count(line, ok)
		case <-late.C:
			t.Fatalf("no more than %d lines, expected one for each of %d items pushed and done", lines, items)
		}
	}
	pusher.end(t, false)
	for _, taker := range takers {
		for _, line := range taker.end(t, true) {
			counts[line]++
		}
	}
	for i := range items {
		for _, what := range []string{"pushed", "done"} {
			if n := counts[fmt.Sprintf("%s %d", what, i)]; n != 1 {
				t.Errorf("item %d was %s %d times", i, what, n)
			}
		}
	}
	if len(counts) != 2*items {
		t.Errorf("%d different lines, expected %d", len(counts), 2*items)
	}
}
