package pqd

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// Callers push items through one client, while processes are killed. Each item whose push succeeded has to come once,
// and each whose push did not once at most.
type Callers struct {
	testing.TB
	queue  *client.Queue
	pushed []bool         // the push of the item succeeded
	came   []atomic.Int32 // how often the item was popped
	ended  atomic.Bool    // no push is under way any more
}

// NewCallers returns the callers of some pushes to a queue.
func NewCallers(t testing.TB, queue *client.Queue, items int) *Callers {
	return &Callers{TB: t, queue: queue, pushed: make([]bool, items), came: make([]atomic.Int32, items)}
}

// Push has callers push the items in random order. Meanwhile something happens a number of times, each time after the
// same number of pushes. It returns how long that took.
func (c *Callers) Push(random *rand.Rand, callers, times int, happen func(i int)) time.Duration {
	c.Helper()
	items := len(c.pushed)
	order, part := random.Perm(items), items/(times+1)
	moments := make(chan int, times)
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for {
				k := int(next.Add(1)) - 1
				if k >= items {
					return
				}
				if k%part == 0 && k > 0 && k/part <= times {
					moments <- k
				}
				i := order[k]
				_, err := c.queue.Push(c.Context(), []byte(strconv.Itoa(i)), client.Priority(int64(i%10)))
				if c.pushed[i] = err == nil; err != nil {
					c.Logf("push: %v", err)
				}
			}
		})
	}
	for i := range times {
		<-moments
		happen(i)
	}
	all.Wait()
	c.ended.Store(true)
	return time.Since(began)
}

// Pop pops until the queue is empty after the last push. Pops are repeated when their answers are lost.
func (c *Callers) Pop() {
	for {
		last := c.ended.Load()
		ctx, cancel := context.WithTimeout(c.Context(), testenv.Most)
		items, err := c.queue.PopBatch(ctx, client.Min, client.MaxMany, client.Repeatable())
		cancel()
		if err != nil && !errors.Is(err, client.ErrEmpty) {
			c.Errorf("pop: %v", err)
			return
		}
		for _, item := range items {
			if i, err := strconv.Atoi(string(item.Payload)); err != nil || i < 0 || i >= len(c.came) {
				c.Errorf("popped %q", item.Payload)
			} else {
				c.came[i].Add(1)
			}
		}
		if last && len(items) == 0 {
			return
		}
	}
}

// Judge compares the items that came with the pushes, and returns how many of these succeeded.
func (c *Callers) Judge() (succeeded int) {
	c.Helper()
	lost, doubled := 0, 0
	for i := range c.came {
		times := c.came[i].Load()
		if c.pushed[i] {
			succeeded++
		}
		if c.pushed[i] && times == 0 {
			lost++
		}
		if times > 1 {
			doubled++
		}
	}
	if lost > 0 || doubled > 0 {
		c.Errorf("of %d items whose push succeeded %d are lost and %d came more than once", succeeded, lost, doubled)
	}
	return succeeded
}
