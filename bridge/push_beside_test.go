package bridge_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
)

// pushTo sends a push that is answered at an inbox, or nowhere.
func (c *client) pushTo(inbox, body string) {
	c.Helper()
	if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.push", Reply: inbox, Data: []byte(body)}); err != nil {
		c.Fatal(err)
	}
}

// underWay pushes an item whose commit is blocked until the returned function is called, or the
// test ends.
func (c *client) underWay(db *slow, inbox, body string) (release func()) {
	c.Helper()
	release = sync.OnceFunc(db.blockNext())
	c.Cleanup(release)
	c.pushTo(inbox, body)
	db.awaitBlocked(c)
	return release
}

// unanswered fails if an answer has come.
func (c *client) unanswered(from answers) {
	c.Helper()
	select {
	case m := <-from.came:
		c.Fatalf("answered %q while an earlier push is under way", m.Data)
	case <-time.After(50 * time.Millisecond):
	}
}

// inOrder pops all items of the queue jobs and fails if these do not come in this order.
func (c *client) inOrder(bodies ...string) {
	c.Helper()
	var order []string
	for {
		m := c.ask("pq.jobs.pop.min", "")
		if m.Header.Get("Status") == "404" {
			break
		}
		order = append(order, string(m.Data))
	}
	got := slices.DeleteFunc(slices.Clone(order), func(body string) bool { return !slices.Contains(bodies, body) })
	if !slices.Equal(got, bodies) {
		c.Errorf("popped %q, expected %q in this order", order, bodies)
	}
}

// On a store with several bridges a client's push does not wait for those of others. What a
// client sends without waiting keeps its order.
func TestPushesBesideOthers(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{})
	c.acknowledged(c.ask("pq.jobs.push", "before"))
	inbox := c.NewInbox()
	own := c.hear(inbox + ".*")
	release := c.underWay(db, inbox+".1", "first")
	c.pushTo(inbox+".2", "second")
	c.acknowledged(c.another().ask("pq.jobs.push", "of another client"))
	c.acknowledged(c.ask("pq.jobs.push", "answered elsewhere"))
	c.unanswered(own)
	release()
	c.acknowledged(c.next(own))
	c.acknowledged(c.next(own))
	c.inOrder("before", "first", "second")
}

// A push without an answer keeps its order to all others.
func TestPushesWithoutAnswerKeepTheirOrder(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{})
	c.acknowledged(c.ask("pq.jobs.push", "before"))
	inbox := c.NewInbox()
	own := c.hear(inbox + ".*")
	release := c.underWay(db, "", "first")
	c.pushTo(inbox+".1", "second")
	c.unanswered(own)
	release()
	c.acknowledged(c.next(own))
	release = c.underWay(db, inbox+".2", "third")
	c.pushTo("", "fourth")
	c.pushTo(c.NewInbox()+".3", "fifth")
	release()
	c.acknowledged(c.next(own))
	c.acknowledged(c.ask("pq.jobs.push", "sixth"))
	c.inOrder("before", "first", "second", "third", "fourth", "fifth", "sixth")
}

// Pushes follow one another for a while after two of them have conflicted.
func TestPushesAfterConflict(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{})
	c.acknowledged(c.ask("pq.jobs.push", "before"))
	release := sync.OnceFunc(db.blockNext())
	defer release()
	first := c.send("pq.jobs.push", "once", "Nats-Msg-Id", "once")
	db.awaitBlocked(t)
	if c.acknowledged(c.ask("pq.jobs.push", "once", "Nats-Msg-Id", "once")).Duplicate {
		t.Fatal("a push that has not committed counts")
	}
	conflict := time.Now()
	release()
	if !c.acknowledged(c.next(first)).Duplicate {
		t.Error("an item is pushed twice")
	}
	release = c.underWay(db, c.NewInbox()+".1", "first")
	second := c.send("pq.jobs.push", "second")
	select {
	case <-second.came:
		if time.Since(conflict) < time.Second { // a busy machine may take longer
			t.Error("a push does not wait for one that is under way")
		}
	case <-time.After(50 * time.Millisecond):
	}
	release()
}

// Pushes follow one another where the store belongs to one bridge, where answers have one
// order, and where a queue has a bound.
func TestPushesOneAfterAnother(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		exclusive bool
		config    string
	}{
		"a store of one bridge": {true, `{}`},
		"strict":                {false, `{"strict":true}`},
		"max_length":            {false, `{"max_length":100}`},
		"max_bytes":             {false, `{"max_bytes":100000}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pusher, db := slowly(t, faulty(t), bridge.Options{Exclusive: c.exclusive})
			pusher.ask("pq.jobs.admin.config", c.config)
			inbox := pusher.NewInbox()
			own := pusher.hear(inbox + ".*")
			release := pusher.underWay(db, pusher.NewInbox()+".1", "first")
			pusher.pushTo(inbox+".1", "second")
			pusher.unanswered(own)
			pusher.pushTo(inbox+".2", "third")
			pusher.unanswered(own)
			release()
			pusher.acknowledged(pusher.next(own))
			pusher.acknowledged(pusher.next(own))
			pusher.inOrder("first", "second", "third")
		})
	}
}
