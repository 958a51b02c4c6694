package bridge_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// When the store does not commit a batch, all its requests are refused, however brief the
// outage: none of them waits for more attempts.
func TestOutageFailsTheWholeBatch(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(c *client, ack string) answers{
		"pops":        func(c *client, _ string) answers { return c.send("pq.jobs.pop.min", "") },
		"pushes":      func(c *client, _ string) answers { return c.send("pq.jobs.push", "x") },
		"settlements": func(c *client, ack string) answers { return c.send(ack, "+ACK") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, db := slowly(t, faulty(t), bridge.Options{}) // settlements have transactions of their own
			acks := c.leases(4)
			for range 4 {
				c.push("pq.jobs.push", "x")
			}
			var batch []func() answers
			for _, ack := range acks {
				batch = append(batch, func() answers { return send(c, ack) })
			}
			first, all, release := c.gathered(db, batch[0], batch[1:]...)
			db.failNext(kv.ErrUnavailable)
			release()
			if m := c.next(first); m.Header.Get("Nats-Service-Error") != "" {
				t.Errorf("before the outage: %v", m.Header)
			}
			for _, answer := range all {
				c.refused(c.next(answer), 503)
			}
		})
	}
}

// A brief outage ends the waits of the pops that the transaction tried to serve. Those
// behind them are served next, although no other item arrives.
func TestOutageForgetsNoWaitingPop(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	const tried, waiting = 128, 130
	c.ask("pq.jobs.admin.config", "{}")
	all := c.waitInLine(waiting)
	inbox := strings.TrimSuffix(all.inbox, ".*")
	release := db.blockNext()
	pushed := c.send("pq.jobs.push", "x")
	db.awaitBlocked(t)
	db.failNext(kv.ErrUnavailable)
	release()
	c.acknowledged(c.next(pushed))
	for i := range tried {
		if m := c.refused(c.next(all), 503); m.Subject != fmt.Sprint(inbox, ".", i) {
			t.Fatalf("the answer to %s is number %d", m.Subject, i)
		}
	}
	if m := c.next(all); m.Subject != fmt.Sprint(inbox, ".", tried) {
		t.Errorf("%s was answered with %q, %v", m.Subject, m.Data, m.Header)
	}
}

// A pop whose wait ends while a transaction serves the pops before it is answered.
func TestWaitEndsBehindAFullTransaction(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true, Limits: bridge.Limits{BatchRequests: 1}})
	c.ask("pq.jobs.admin.config", "{}")
	served := c.send("pq.jobs.pop.min", "", "PQ-Wait", "1h")
	c.waiting("jobs", 1)
	push := db.blockNext()
	c.send("pq.jobs.push", "x")
	db.awaitBlocked(t)
	over := c.send("pq.jobs.pop.min", "", "PQ-Wait", "300ms")
	c.refused(c.ask("pq.jobs.pop.min", ""), 404) // behind it
	pop := db.blockNext()
	push()
	db.awaitBlocked(t) // with the first pop; there is no room for the second
	c.waiting("jobs", 1)
	pop()
	if m := c.next(served); string(m.Data) != "x" {
		t.Errorf("the first pop got %q, %v", m.Data, m.Header)
	}
	c.refused(c.next(over), 408)
}

// picky is a store that cannot write a value with the word poison.
type picky struct{ kv.DB }

func (p picky) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return p.DB.Update(ctx, func(tx kv.Tx) error {
		tasted := &tasted{Tx: tx}
		if err := fn(tasted); err != nil || !tasted.poison {
			return err
		}
		return kv.ErrDamaged
	})
}

// tasted is a transaction that notices such values.
type tasted struct {
	kv.Tx
	poison bool
}

func (t *tasted) Set(key, value []byte) {
	t.poison = t.poison || bytes.Contains(value, []byte("poison"))
	t.Tx.Set(key, value)
}

// One push that the store cannot take does not fail those beside it, and they keep their
// order.
func TestOnePushFailsAlone(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, picky{faulty(t)}, bridge.Options{Exclusive: true})
	var batch []func() answers
	bodies := []string{"first", "a", "poison", "b", "c", "poison"}
	for _, body := range bodies {
		batch = append(batch, func() answers { return c.send("pq.jobs.push", body) })
	}
	first, all, release := c.gathered(db, batch[0], batch[1:]...)
	release()
	seq := c.acknowledged(c.next(first)).Seq
	for i, answer := range all {
		if bodies[i+1] == "poison" {
			c.refused(c.next(answer), 506)
			continue
		}
		ack := c.acknowledged(c.next(answer))
		if ack.Seq <= seq {
			t.Errorf("push %d has number %d, the one before it %d", i, ack.Seq, seq)
		}
		seq = ack.Seq
	}
}
