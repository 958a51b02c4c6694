package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/bridge/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/testenv"
)

// losing is a store in which every transaction conflicts once, while the test asks for
// it.
type losing struct {
	kv.DB
	on atomic.Bool
}

var errLost = errors.New("lost")

func (d *losing) Update(ctx context.Context, fn func(kv.Tx) error) error {
	if d.on.Load() {
		err := d.DB.Update(ctx, func(tx kv.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			return errLost
		})
		if !errors.Is(err, errLost) {
			return err
		}
	}
	return d.DB.Update(ctx, fn)
}

// afterConflict starts a bridge that has lost a conflict with another one at the queue
// jobs and waits up to an hour for its turn. It returns the other bridge's turns and the
// messages of both.
func afterConflict(t *testing.T) (c *client, other *peers.Turns, said answers) {
	t.Helper()
	db, err := testenv.Engines()[0].Place(t)()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store := &losing{DB: db}
	c = serveOn(t, store, bridge.Options{})
	bridge.TurnPatience(c.env.Bridge, time.Hour)
	said = c.hear(peers.Inbox(c.env.Store.ID()) + ".take.jobs")
	c.push("pq.jobs.push.5", "first")
	c.pop("pq.jobs.pop.min", "")
	store.on.Store(true)
	c.push("pq.jobs.push.5", "second")
	c.pop("pq.jobs.pop.min", "")
	store.on.Store(false)
	if n := len(said.came); n > 0 {
		t.Fatalf("before anything was lost the bridge said %d things", n)
	}
	other = peers.NewTurns(c.env.NATS.Connect(t, nats.NoEcho()), peers.Identity{ID: "other", StoreID: c.env.Store.ID()},
		peers.Store{Secret: c.env.Store.Secret(), Time: c.env.Store.Time}, slog.New(slog.DiscardHandler))
	other.Lost("jobs")
	t.Cleanup(other.Stop)
	return c, other, said
}

// In a store that one bridge opens, a transaction conflicts with that bridge's own ones,
// and turns would not help.
func TestNoTurnsInAnExclusiveStore(t *testing.T) {
	t.Parallel()
	store := &losing{DB: faulty(t)}
	c := serveOn(t, store, bridge.Options{Exclusive: true})
	said := c.hear(peers.Inbox(c.env.Store.ID()) + ".take.*")
	store.on.Store(true)
	for range 2 {
		c.push("pq.jobs.push", "x")
		c.pop("pq.jobs.pop.min", "")
	}
	if n := len(said.came); n > 0 {
		t.Errorf("the bridge said %d things to others", n)
	}
}

// A transaction that runs again announces what has happened once.
func TestEventsOfTheLastRun(t *testing.T) {
	t.Parallel()
	for name, exclusive := range map[string]bool{"own store": true, "shared store": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &losing{DB: faulty(t)}
			c := serveOn(t, store, bridge.Options{Exclusive: exclusive})
			events := c.hear("pq.jobs.event.dead")
			acks := c.leases(2)
			store.on.Store(true)
			for _, ack := range acks {
				c.accepted(c.raw(ack, "+TERM"))
			}
			if n := len(events.came); n != 2 {
				t.Errorf("%d events, expected one for each item", n)
			}
		})
	}
}

// A bridge that has lost a conflict pops when the other one is done, and then serves all
// pops that have arrived meanwhile.
func TestPopsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	c, other, said := afterConflict(t)
	other.Await("jobs")
	c.next(said)
	for i := range 3 {
		c.push("pq.jobs.push.5", fmt.Sprint("item ", i))
	}
	first := c.send("pq.jobs.pop.min", "")
	c.next(said)
	more := []answers{c.send("pq.jobs.pop.min", ""), c.send("pq.jobs.pop.min", "")}
	for deadline := time.Now().Add(patience); c.metrics()["pq_requests_in_flight{kind=work}"] < 3; {
		if time.Now().After(deadline) {
			t.Fatal("the pops did not arrive")
		}
	}
	c.push("pq.jobs.push.1", "urgent")
	other.Done("jobs")
	if m := c.next(first); string(m.Data) != "urgent" {
		t.Errorf("popped %q, want what came before it was the bridge's turn", m.Data)
	}
	for _, answer := range more {
		c.next(answer)
	}
	c.next(said) // the other one has finished
	c.next(said) // and so has the bridge
	if n := len(said.came); n > 0 {
		t.Errorf("for three pops the bridge took more than one turn: %d more messages", n)
	}
}

// Forged messages between bridges do not delay a pop, although the bridge would wait an
// hour for another one.
func TestForgedTurns(t *testing.T) {
	t.Parallel()
	c, other, said := afterConflict(t)
	other.Await("jobs")
	other.Done("jobs")
	for _, copied := range []*nats.Msg{c.next(said), c.next(said)} {
		c.tell(said, copied.Data)
	}
	for _, forged := range []string{"", "+", "-", "-nobody", "?what", "+gone", "+gone", "+gone too", string(make([]byte, 47))} {
		c.tell(said, []byte(forged))
	}
	for i := range 1000 {
		c.tell(said, fmt.Append(nil, "+", i))
	}
	for i := range 3 {
		c.push("pq.jobs.push.5", fmt.Sprint("item ", i))
		c.pop("pq.jobs.pop.min", "")
	}
}

func (c *client) tell(said answers, what []byte) {
	c.Helper()
	if err := c.Publish(said.inbox, what); err != nil {
		c.Fatal(err)
	}
}

// Bridges that pop one queue alternate, with few conflicts.
func TestBridgesTakeTurns(t *testing.T) {
	t.Parallel()
	db, err := testenv.Engines()[0].Place(t)()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	c := serveOn(t, db, bridge.Options{})
	bridges := []*bridge.Bridge{c.env.Bridge, c.second(), c.second()}
	defer c.drain(bridges[1])
	defer c.drain(bridges[2])
	for _, b := range bridges {
		bridge.TurnPatience(b, time.Hour)
	}
	const clients, each = 8, 40
	popped := make(chan string, clients*each)
	for i := range clients * each {
		c.push("pq.jobs.push.5", fmt.Sprint(i))
	}
	for range clients {
		go func() {
			nc := c.another()
			for range each {
				m, err := nc.RequestMsg(&nats.Msg{Subject: "pq.jobs.pop.min"}, patience)
				if err != nil || m.Header.Get("PQ-Id") == "" {
					t.Errorf("%v, %v", m, err)
					popped <- ""
					continue
				}
				popped <- string(m.Data)
			}
		}()
	}
	seen := make(map[string]bool)
	for range clients * each {
		item := <-popped
		if seen[item] {
			t.Errorf("item %s was popped twice", item)
		}
		seen[item] = true
	}
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "empty")
}
