package bridge_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/testenv"
)

// sharing has requests to many queues come while another one is under way, so that they share a transaction. It returns how many
// transactions they take, besides that.
func (c *client) sharing(db *slow, send func(queue string) answers, finish func(queue string, from answers)) int64 {
	c.Helper()
	const queues = 20
	release := sync.OnceFunc(db.blockNext())
	defer release() // or the end of a test that failed would wait for it
	held := send("jobs-held")
	db.awaitBlocked(c)
	sent := make(map[string]answers)
	for i := range queues {
		queue := fmt.Sprint("jobs-", i)
		sent[queue] = send(queue)
	}
	c.awaitLine(queues)
	before := db.commits.Load()
	release()
	finish("jobs-held", held)
	for queue, from := range sent {
		finish(queue, from)
	}
	return db.commits.Load() - before - 1
}

// awaitLine returns when so many queues wait for a transaction that they share.
func (c *client) awaitLine(queues int) {
	c.Helper()
	testenv.Await(c, fmt.Sprint(queues, " queues are in line"), func() bool { return bridge.InLine(c.env.Bridge) >= queues })
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

// A pop that is sent after the push of a more urgent item was acknowledged gets that
// item. A transaction that has read its queue before cannot serve it, although an earlier
// pop of the queue has a part in that one.
func TestLatePopSeesAcknowledgedPush(t *testing.T) {
	t.Parallel()
	held := &readOnce{DB: faulty(t), queue: "jobs-first", read: make(chan struct{}), goOn: make(chan struct{})}
	c, db := slowly(t, held, bridge.Options{Exclusive: true, Limits: bridge.Limits{BatchRequests: 4}})
	for _, queue := range []string{"held-jobs", "jobs-first", "jobs-second", "jobs-second"} {
		c.push("pq."+queue+".push", "early", "PQ-Priority", "5")
	}
	goOn := sync.OnceFunc(func() { close(held.goOn) })
	defer goOn() // or the end of a test that failed would wait for it
	release := sync.OnceFunc(db.blockNext())
	defer release()
	under := []answers{c.send("pq.held-jobs.pop.min", "")}
	db.awaitBlocked(t)
	for i, queue := range []string{"jobs-first", "jobs-second"} {
		under = append(under, c.send("pq."+queue+".pop.min", ""))
		c.awaitLine(i + 1)
	}
	held.on.Store(true)
	release()
	select {
	case <-held.read: // both queues share this transaction
	case <-testenv.Late():
		t.Fatal("nothing read jobs-first")
	}
	urgent := frame("urgent", "PQ-Priority", "1")
	c.pushBundle("pq.jobs-second.push", []string{urgent, urgent}) // so large that it does not wait for the pops
	late := c.send("pq.jobs-second.pop.min", "")
	c.refused(c.ask("pq.jobs-second.pop.min", "this is no body"), 400) // so the late pop is in its line
	goOn()
	for _, from := range under {
		if m := c.next(from); string(m.Data) != "early" {
			t.Errorf("popped %q, %v", m.Data, m.Header)
		}
	}
	if m := c.next(late); string(m.Data) != "urgent" {
		t.Errorf("a pop that was sent after the push of an urgent item popped %q, %v", m.Data, m.Header)
	}
}

// readOnce is a store in which the next transaction that reads a row of a queue waits
// after this read.
type readOnce struct {
	kv.DB
	queue      string
	on         atomic.Bool
	read, goOn chan struct{}
}

func (r *readOnce) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return r.DB.Update(ctx, func(tx kv.Tx) error { return fn(&readOnceTx{tx, r}) })
}

type readOnceTx struct {
	kv.Tx
	of *readOnce
}

func (t *readOnceTx) Get(key []byte) ([]byte, error) {
	value, err := t.Tx.Get(key)
	if bytes.Contains(key, []byte(t.of.queue)) && t.of.on.CompareAndSwap(true, false) {
		close(t.of.read)
		<-t.of.goOn
	}
	return value, err
}
