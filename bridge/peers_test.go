package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/testenv"
)

// losing is a store in which every transaction loses once, while it is told to.
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

// contested starts a bridge that has lost to another one, which is the test. It
// returns what the bridge says about the queue jobs.
func contested(t *testing.T, patience time.Duration) (*client, answers) {
	t.Helper()
	db, err := testenv.Engines()[0].Place(t)()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store := &losing{DB: db}
	c := serveOn(t, store, bridge.Options{})
	bridge.TurnPatience(c.env.Bridge, patience)
	said := c.hear("_INBOX." + c.env.Store.ID() + ".take.jobs")
	c.push("pq.jobs.push.5", "first")
	c.pop("pq.jobs.pop.min", "")
	store.on.Store(true)
	c.push("pq.jobs.push.5", "second")
	c.pop("pq.jobs.pop.min", "")
	store.on.Store(false)
	if n := len(said.came); n > 0 {
		t.Fatalf("before anything was lost the bridge said %d things", n)
	}
	return c, said
}

// heard returns what the bridge says next, which has to be this.
func (c *client) heard(said answers, what byte) {
	c.Helper()
	if m := c.next(said); len(m.Data) < 2 || m.Data[0] != what {
		c.Fatalf("the bridge said %q, want %c and its name", m.Data, what)
	}
}

func (c *client) say(said answers, what string) {
	c.Helper()
	if err := c.Publish(said.inbox, []byte(what)); err != nil {
		c.Fatal(err)
	}
}

// A bridge that has lost to another one takes when that one is done, and takes
// then for all who have asked meanwhile.
func TestContestants(t *testing.T) {
	t.Parallel()
	c, said := contested(t, time.Hour)
	c.say(said, "+other")
	if m := c.next(said); string(m.Data) != "+other" { // the test hears itself
		t.Fatalf("heard %q", m.Data)
	}
	for i := range 3 {
		c.push("pq.jobs.push.5", fmt.Sprint("item ", i))
	}
	first := c.send("pq.jobs.pop.min", "")
	c.heard(said, '+')
	more := []answers{c.send("pq.jobs.pop.min", ""), c.send("pq.jobs.pop.min", "")}
	for deadline := time.Now().Add(patience); c.metrics()["pq_requests_in_flight{kind=work}"] < 3; {
		if time.Now().After(deadline) {
			t.Fatal("the pops did not arrive")
		}
	}
	c.push("pq.jobs.push.1", "urgent")
	c.say(said, "-other")
	if m := c.next(first); string(m.Data) != "urgent" {
		t.Errorf("popped %q, want what came before it was the bridge's turn", m.Data)
	}
	for _, answer := range more {
		c.next(answer)
	}
	if m := c.next(said); string(m.Data) != "-other" {
		t.Fatalf("heard %q", m.Data)
	}
	c.heard(said, '-')
	if n := len(said.came); n > 0 {
		t.Errorf("for three pops the bridge took more than one turn: %d more messages", n)
	}
}

// One that is not heard any more is not waited for any longer, and nonsense
// harms nobody.
func TestContestantGone(t *testing.T) {
	t.Parallel()
	c, said := contested(t, time.Millisecond)
	for _, nonsense := range []string{"", "+", "-", "-nobody", "?what", "+gone", "+gone", "+gone too"} {
		c.say(said, nonsense)
	}
	for i := range 1000 {
		c.say(said, fmt.Sprint("+", i))
	}
	for i := range 3 {
		c.push("pq.jobs.push.5", fmt.Sprint("item ", i))
		c.pop("pq.jobs.pop.min", "")
	}
}

// What somebody says in the bridge's own name, or of any number of others, does
// not stop it.
func TestContestantBelied(t *testing.T) {
	t.Parallel()
	c, said := contested(t, time.Hour)
	c.say(said, "+other")
	c.next(said) // the test hears itself
	c.push("pq.jobs.push.5", "item")
	popped := c.send("pq.jobs.pop.min", "")
	want := c.next(said)
	c.say(said, "-"+string(want.Data[1:]))
	c.say(said, "-other")
	if m := c.next(popped); string(m.Data) != "item" {
		t.Errorf("popped %q", m.Data)
	}
}

// Bridges that pop one queue share it, and lose next to nothing to each other.
func TestContest(t *testing.T) {
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
