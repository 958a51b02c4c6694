package bridge_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge"
)

// sharing has requests to many queues come while others are under way, so that they share
// a transaction. It returns how many transactions they take, besides those.
func (c *client) sharing(db *slow, send func(queue string) answers, finish func(queue string, from answers)) int64 {
	c.Helper()
	const queues, underWay = 20, 2
	var held []answers
	var releases []func()
	for i := range underWay {
		release := sync.OnceFunc(db.blockNext())
		defer release() // or the end of a test that failed would wait for it
		releases = append(releases, release)
		held = append(held, send(fmt.Sprint("jobs-held-", i)))
		db.awaitBlocked(c)
	}
	sent := make(map[string]answers)
	for i := range queues {
		queue := fmt.Sprint("jobs-", i)
		sent[queue] = send(queue)
	}
	for deadline := time.Now().Add(patience); bridge.InLine(c.env.Bridge) < queues; runtime.Gosched() {
		if time.Now().After(deadline) {
			c.Fatalf("%d queues are in line, expected %d", bridge.InLine(c.env.Bridge), queues)
		}
	}
	before := db.commits.Load()
	for i, release := range releases {
		release()
		finish(fmt.Sprint("jobs-held-", i), held[i])
	}
	for queue, from := range sent {
		finish(queue, from)
	}
	return db.commits.Load() - before - underWay
}

// Requests to many queues share transactions, with what each of them asks for.
func TestQueuesShareTransactions(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	n := c.sharing(db,
		func(queue string) answers { return c.send("pq."+queue+".push", queue) },
		func(_ string, from answers) { c.acknowledged(c.next(from)) })
	if n != 1 {
		t.Errorf("%d transactions for pushes to 20 queues, expected 1", n)
	}
	acks := make(map[string]string)
	n = c.sharing(db,
		func(queue string) answers { return c.send("pq."+queue+".pop.min", "", "PQ-Lease", "1h") },
		func(queue string, from answers) {
			m := c.next(from)
			if string(m.Data) != queue {
				t.Errorf("popped %q from %s, %v", m.Data, queue, m.Header)
			}
			acks[queue] = m.Reply
		})
	if n != 1 {
		t.Errorf("%d transactions for leases of 20 queues, expected 1", n)
	}
	n = c.sharing(db,
		func(queue string) answers { return c.send(acks[queue], "+ACK") },
		func(queue string, from answers) {
			if m := c.next(from); m.Header != nil {
				t.Errorf("an acknowledgement in %s: %v", queue, m.Header)
			}
		})
	if n != 1 {
		t.Errorf("%d transactions for settlements in 20 queues, expected 1", n)
	}
	for i := range 20 {
		if info := c.info(fmt.Sprint("jobs-", i)); info.Ready+info.Leased != 0 {
			t.Errorf("%+v", info)
		}
	}
}

// A request that is refused undoes only itself, whatever shares its transaction, and what
// one connection pushes to a queue keeps its order.
func TestRefusalAmongQueues(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	c.ask("pq.jobs-7.admin.config", `{"max_length":1}`)
	bundle := frame("a") + frame("b")
	more := make(map[string][]answers)
	c.sharing(db,
		func(queue string) answers {
			if queue == "jobs-7" {
				return c.send("pq.jobs-7.push", bundle, "PQ-Bundle", "2")
			}
			first := c.send("pq."+queue+".push", "0")
			for n := 1; n < 4; n++ {
				more[queue] = append(more[queue], c.send("pq."+queue+".push", fmt.Sprint(n)))
			}
			return first
		},
		func(queue string, from answers) {
			if queue == "jobs-7" {
				c.refusedItem(c.next(from), 429, 1, "max_length")
				return
			}
			c.acknowledged(c.next(from))
			for _, from := range more[queue] {
				c.acknowledged(c.next(from))
			}
		})
	c.refused(c.ask("pq.jobs-7.pop.min", ""), 404, "empty")
	for i := range 20 {
		for n := 0; n < 4 && i != 7; n++ {
			if m := c.pop(fmt.Sprintf("pq.jobs-%d.pop.min", i), ""); string(m.Data) != fmt.Sprint(n) {
				t.Errorf("popped %q from jobs-%d, expected %d", m.Data, i, n)
			}
		}
	}
}
