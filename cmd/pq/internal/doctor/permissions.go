package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nuid"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

// attempt is something that a user may be allowed to do.
type attempt struct {
	name string
	do   func(ctx context.Context) error
}

// permitted tries requests, notes those that fail, and returns which of them the server permits.
func (d *doctor) permitted(attempts ...attempt) (may, mayNot []string) {
	failed := make(map[string]bool)
	for _, a := range attempts {
		ok, err := d.try(a.do)
		if !ok {
			mayNot = append(mayNot, a.name)
			continue
		}
		may = append(may, a.name) // an error of the bridge proves the permission, too
		if text := failure(err); text != "" && !failed[text] {
			failed[text] = true // others fail for the same reason
			d.note(bad, "requests", "%s: %s", a.name, text)
		}
	}
	return may, mayNot
}

// failure says why a permitted request failed, "" if it did not. The items and the queue that
// doctor asks for need not be there.
func failure(err error) string {
	var answer *client.Error
	switch {
	case err == nil, errors.Is(err, client.ErrEmpty), errors.Is(err, client.ErrNotFound):
		return ""
	case errors.As(err, &answer):
		return fmt.Sprintf("%s (%d)", answer.Description, answer.Code)
	}
	return session.WithoutPrefix(err)
}

func ignore[T any](_ T, err error) error { return err }

// tryReads tries the requests that change nothing, on the queue that was given.
func (d *doctor) tryReads() {
	q := d.client.Queue(d.queue)
	may, mayNot := d.permitted(
		attempt{"info", func(ctx context.Context) error { return ignore(q.Info(ctx)) }},
		attempt{"list", func(ctx context.Context) error {
			for _, err := range q.List(ctx, client.ListOptions{}) {
				return err
			}
			return nil
		}},
		attempt{"peek", func(ctx context.Context) error { return ignore(q.Peek(ctx, client.Min)) }},
	)
	d.permissions(may, mayNot, "what changes something was not tried")
}

// absent is the id of an item that no queue has.
const absent = "FBYD_AGmMm9rGjYE-gA"

// tryAll makes a queue and tries the usual requests on it.
func (d *doctor) tryAll() {
	q := d.client.Queue(fmt.Sprintf("%s%d-%s", ownQueue, time.Now().Unix(), nuid.Next()))
	ctx := d.session.Context
	may, err := d.try(func(ctx context.Context) error { return ignore(q.Configure(ctx, client.ConfigChange{})) })
	if may && err != nil {
		d.note(bad, "store", "a queue cannot be made: %v", err)
		return
	}
	if !may {
		d.note(warn, "permissions", `this user may not administer queues, so nothing was tried: "pq doctor <queue>" tries what changes nothing`)
		return
	}
	defer func() {
		if err := q.Delete(context.WithoutCancel(ctx)); err != nil {
			d.note(warn, "permissions", "the queue %s could not be deleted: %v", q.Name(), err)
		}
	}()
	d.removeLeftovers()
	var pushed client.Pushed
	var began, ended time.Time // of the push
	var leased *client.Item
	can, cannot := d.permitted(
		attempt{"push", func(ctx context.Context) (err error) {
			began = time.Now()
			pushed, err = q.Push(ctx, []byte("doctor"), client.Priority(1))
			ended = time.Now()
			return err
		}},
		attempt{"info", func(ctx context.Context) error { return ignore(q.Info(ctx)) }},
		attempt{"peek", func(ctx context.Context) error { return ignore(q.Peek(ctx, client.Min)) }},
		attempt{"get", func(ctx context.Context) error { return ignore(q.Get(ctx, absent)) }},
		attempt{"move", func(ctx context.Context) error { return q.Move(ctx, absent, 1) }},
		attempt{"requeue", func(ctx context.Context) error { return ignore(q.Requeue(ctx, absent, "")) }},
		attempt{"revoke", func(ctx context.Context) error {
			return q.Revoke(ctx, absent, client.RevokeOptions{Fence: 1})
		}},
		attempt{"pop", func(ctx context.Context) (err error) {
			leased, err = q.Pop(ctx, client.Min, client.Lease(time.Minute))
			return err
		}},
		attempt{"ack", func(ctx context.Context) error {
			if leased == nil {
				return nil
			}
			return leased.Ack(ctx)
		}},
		attempt{"remove", func(ctx context.Context) error { return q.Remove(ctx, absent) }},
	)
	d.permissions(can, cannot, "")
	if pushed.ID != "" {
		d.store(q)
	}
	if leased != nil {
		d.clock(leased.Pushed, began, ended)
	}
}

// ownQueue begins the names of queues that doctor makes. The time at which it does so follows.
const ownQueue = "doctor-"

// leftover is how old a queue of doctor's is that none uses any more.
const leftover = time.Hour

// removeLeftovers deletes the queues of earlier runs that were killed, or whose output nobody read to its end.
func (d *doctor) removeLeftovers() {
	page, err := d.client.QueuesPage(d.session.Context, client.QueuesOptions{Prefix: ownQueue})
	if err != nil {
		return // this user may not see all queues, or the check of all queues says why
	}
	for _, name := range page.Queues {
		made, _, _ := strings.Cut(strings.TrimPrefix(name, ownQueue), "-")
		seconds, err := strconv.ParseInt(made, 10, 64)
		if err != nil || time.Since(time.Unix(seconds, 0)) < leftover {
			continue
		}
		if err := d.client.Queue(name).Delete(d.session.Context); err != nil {
			d.note(warn, "queues", "%s, which an earlier pq doctor left behind, could not be deleted: %v", name, err)
			continue
		}
		d.note(fine, "queues", "deleted %s, which an earlier pq doctor left behind", name)
	}
}

func (d *doctor) permissions(may, mayNot []string, besides string) {
	text := "may " + strings.Join(may, ", ")
	if len(may) == 0 {
		text = "may do nothing of what was tried"
	}
	if besides != "" {
		text += "; " + besides
	}
	if len(mayNot) == 0 {
		d.note(fine, "permissions", "%s", text)
		return
	}
	d.note(warn, "permissions", "%s; may not %s: if it should, let it publish there in the server's configuration", text, strings.Join(mayNot, ", "))
}

// slowStore is how long a push may take before doctor points to the disk, whose fsync it
// waits for.
const slowStore = 50 * time.Millisecond

// store measures how long a push takes.
func (d *doctor) store(q *client.Queue) {
	const n = 20
	var times []time.Duration
	for range n {
		started := time.Now()
		if _, err := q.Push(d.session.Context, []byte("doctor")); err != nil {
			d.note(bad, "store", "%v", err)
			return
		}
		times = append(times, time.Since(started))
	}
	slices.Sort(times)
	median, worst := times[n/2], times[n-1]
	text := fmt.Sprintf("a push is on disk within %s, at worst of %d within %s", show.Span(median), n, show.Span(worst))
	if median > slowStore {
		d.note(warn, "store", "%s: that is slow; is the disk busy, or is it a network's?", text)
		return
	}
	d.note(fine, "store", "%s", text)
}

// eavesdroppers warns when somebody hears what goes to the inboxes of others: no bridge can tell then
// which clients have stopped waiting. The server says at once, before it answers a ping, that nobody
// listens at an inbox that does not exist.
func (d *doctor) eavesdroppers() {
	nc := d.session.NC
	reply := nc.NewInbox()
	answer, err := nc.SubscribeSync(reply)
	if err != nil {
		return // the connection has ended, which the next check says
	}
	defer func() { _ = answer.Unsubscribe() }() // it ends with the connection at the latest
	for _, below := range asClientsHaveThem {
		if nc.PublishRequest(nc.NewInbox()+below, reply, nil) != nil {
			return
		}
	}
	if d.refused() || !nc.IsConnected() {
		return // this user cannot know
	}
	if nobody, _, err := answer.Pending(); err != nil || nobody == len(asClientsHaveThem) {
		return
	}
	below, _, _ := strings.Cut(reply, ".")
	d.note(warn, "inbox", `somebody subscribes to the inboxes of others, such as "%s.>" or ">", or a gateway hides who listens: waits without an item end after %s, since no bridge sees who has left`,
		below, protocol.MaxWaitUnseen)
}

// asClientsHaveThem are the ends of inboxes: one for each request, for all requests together, and for a wait.
var asClientsHaveThem = []string{"", ".nobody", ".w.nobody"}
