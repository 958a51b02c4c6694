package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A replica is a process that makes jobs at a steady rate and works on those of all
// replicas: what a service that uses a queue deploys several of. It writes a line for each
// job that is stored, and for each one that is done, before it says so to the queue.

const (
	replicaWorkers = 32
	replicaBatch   = 128                   // jobs of one push at most
	replicaTick    = 10 * time.Millisecond // between pushes
	replicaWork    = time.Millisecond      // that a job takes
	replicaPayload = 256

	lineStored = "stored"
	lineDone   = "done"
)

// jobs is a queue of jobs, as a replica uses it.
type jobs interface {
	// push stores jobs; repeated after an error, it may store them again.
	push(ctx context.Context, payloads [][]byte) error
	// work has done called with the payload of every job it gets, until the replica ends.
	work(ctx context.Context, done func(payload []byte)) error
}

// replicaMain is a replica. Its jobs have names that begin with its own. The lines of its
// standard input are rates; where they end it ends.
func replicaMain(ctx context.Context, contender, addr, name string) error {
	c, err := contenderNamed(contender)
	if err != nil {
		return err
	}
	queue, err := c.connect(ctx, addr)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var rate atomic.Int64
	go func() {
		defer stop()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			if n, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
				rate.Store(n)
			}
		}
	}()
	out := &lines{w: os.Stdout}
	go produce(ctx, queue, name, &rate, out)
	return queue.work(ctx, func(payload []byte) {
		time.Sleep(replicaWork)
		out.write(lineDone, payload)
	})
}

// produce stores the jobs that are due. A job is due when the rate says so, however long
// earlier ones take: what waits for the queue to come back is late.
func produce(ctx context.Context, queue jobs, name string, rate *atomic.Int64, out *lines) {
	last, credit := time.Now(), 0.0
	for n := 0; ctx.Err() == nil; {
		now := time.Now()
		per := float64(rate.Load())
		credit += per * now.Sub(last).Seconds()
		last = now
		var batch [][]byte
		for ; credit >= 1 && len(batch) < replicaBatch; credit-- {
			due := now.Add(-time.Duration(credit / max(per, 1) * float64(time.Second)))
			batch = append(batch, jobPayload(fmt.Sprintf("%s/%d", name, n), due))
			n++
		}
		for len(batch) > 0 && ctx.Err() == nil {
			if err := queue.push(ctx, batch); err != nil {
				fmt.Fprintln(os.Stderr, "push:", err)
				time.Sleep(100 * time.Millisecond)
				continue
			}
			for _, payload := range batch {
				out.write(lineStored, payload)
			}
			break
		}
		if credit < 1 {
			time.Sleep(replicaTick)
		}
	}
}

// jobPayload has the name of the job and when it was due, and is as large as all others.
func jobPayload(name string, due time.Time) []byte {
	text := fmt.Sprintf("%s %d ", name, due.UnixNano())
	return append([]byte(text), bytes.Repeat([]byte{'x'}, replicaPayload-len(text))...)
}

// lines writes each line at once: what is written outlives the process.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) write(word string, payload []byte) {
	fields := bytes.Fields(payload)
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "%s %s %s %d\n", word, fields[0], fields[1], time.Now().UnixNano())
}

// event is a line of a replica.
type event struct {
	done bool // or stored
	job  string
	due  time.Time
	at   time.Time
}

func parseEvent(line string) (e event, err error) {
	var word string
	var due, at int64
	if _, err := fmt.Sscanf(strings.TrimSpace(line), "%s %s %d %d", &word, &e.job, &due, &at); err != nil || word != lineDone && word != lineStored {
		return e, fmt.Errorf("a replica wrote %q: expected what became of a job", line)
	}
	e.done, e.due, e.at = word == lineDone, time.Unix(0, due), time.Unix(0, at)
	return e, nil
}
