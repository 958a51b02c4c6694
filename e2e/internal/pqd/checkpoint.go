package pqd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// Checkpoints is a job of many steps whose worker says after each how far it is, and is killed again and again. The next worker goes on
// from there, so no step is done twice but the one that was under way, and none is left out.
type Checkpoints struct {
	testing.TB
	URL    string
	Steps  int
	Random *rand.Rand

	done  []int         // the steps, in the order in which they were done
	cycle time.Duration // about how long a step takes
}

// Run does the job with a number of workers that are killed, and one that ends it. Meanwhile something happens a number of times.
func (c *Checkpoints) Run(kills, times int, happen func(i int)) {
	c.Helper()
	admin, die := c.dial()
	defer die()
	pushed, err := admin.Push(c.Context(), []byte("job"), client.ResultTTL(time.Hour))
	if err != nil {
		c.Fatal(err)
	}
	began := time.Now()
	c.cycle = time.Millisecond
	for n := range kills {
		if part := kills / (times + 1); times > 0 && n > 0 && n%part == 0 && n/part <= times {
			happen(n/part - 1)
		}
		c.life(kills - n)
		c.takeAway(admin, pushed.ID)
	}
	c.life(0)
	result, err := admin.AwaitResult(c.Context(), pushed.ID, testenv.Most)
	if err != nil || result.Outcome != protocol.FinishDone || string(result.Body) != strconv.Itoa(c.Steps) {
		c.Fatalf("the job: %+v, %v", result, err)
	}
	c.judge(kills)
	c.Logf("%d steps were done %d times by %d workers that were killed, beside %d faults, in %s", c.Steps, len(c.done), kills, times, time.Since(began).Round(time.Millisecond))
}

func (c *Checkpoints) dial() (q *client.Queue, die func()) {
	c.Helper()
	q, die, err := Dial(c.URL, "checkpoints")
	if err != nil {
		c.Fatal(err)
	}
	return q, die
}

// life is one worker, which is killed at a moment at which so many more are to be killed, 0: it ends the job.
func (c *Checkpoints) life(kills int) {
	c.Helper()
	q, die := c.dial()
	defer die()
	item, err := q.Pop(c.Context(), client.Min, client.Lease(time.Hour), client.Wait(testenv.Most))
	if err != nil {
		c.Fatal(err)
	}
	last := 0
	if item.Progress != "" {
		if last, err = strconv.Atoi(item.Progress); err != nil {
			c.Fatal(err)
		}
	}
	if kills > 0 {
		// The steps that are left last for as many workers as are left.
		share := max(1, 2*(c.Steps-1-last)) * int(c.cycle) / kills
		moment := time.Duration(c.Random.IntN(max(share, int(c.cycle))))
		defer time.AfterFunc(moment, die).Stop()
	}
	for step := last + 1; step <= c.Steps; step++ {
		if kills > 0 && step == c.Steps {
			return // it is killed before it does the last one
		}
		began := time.Now()
		c.done = append(c.done, step)
		if err := item.Report(c.Context(), strconv.Itoa(step)); err != nil {
			if kills == 0 || !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, client.ErrUnknownResult) {
				c.Errorf("step %d: %v", step, err)
			}
			return
		}
		c.cycle = (7*c.cycle + time.Since(began)) / 8
	}
	if err := item.AckWith(c.Context(), []byte(strconv.Itoa(c.Steps))); err != nil {
		c.Error(err)
	}
}

// takeAway takes the item from a worker that has been killed: another one would get it when the lease is over.
func (c *Checkpoints) takeAway(admin *client.Queue, id string) {
	c.Helper()
	err := admin.Revoke(c.Context(), id, client.RevokeOptions{Delay: new(time.Duration(0))})
	if err != nil && !errors.Is(err, client.ErrNotLeased) && !errors.Is(err, client.ErrUnknownResult) {
		c.Fatal(err)
	}
}

// judge looks at the steps: each follows the one before, or is that one again, which was under way when its worker was killed.
func (c *Checkpoints) judge(kills int) {
	c.Helper()
	last := 0
	for i, step := range c.done {
		if step != last && step != last+1 {
			c.Errorf("step %d was done behind step %d: %s", step, last, fmt.Sprint(c.done[max(0, i-10):min(len(c.done), i+10)]))
		}
		last = step
	}
	if last != c.Steps || len(c.done) > c.Steps+kills {
		c.Errorf("the last step was %d, and there were %d: expected %d, and %d at most", last, len(c.done), c.Steps, c.Steps+kills)
	}
}
