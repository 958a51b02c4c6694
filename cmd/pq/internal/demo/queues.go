package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// The queues of the demo. Each step has its own.
const (
	urgent    = "demo"
	tenants   = "demo-tenants"
	budget    = "demo-budget"
	retries   = "demo-retries"
	failing   = "demo-failing"
	graveyard = "demo-failing-dead"
	leases    = "demo-leases"
	calls     = "demo-calls"
	clock     = "demo-clock"

	// turnstile has one item, and the demo that holds its lease owns the other queues: two at a time would take each other's
	// items, and the second one would take the queues of the first for left-overs.
	turnstile = "demo-run"
)

var names = []string{urgent, tenants, budget, retries, failing, graveyard, leases, calls, clock}

// mark is a hand_over that names no queue: it shows that a demo has made a queue, from the transaction on that makes it. Queues of
// that name without it are somebody's own.
const mark = "made-by-pq-demo"

// tokensAnHour is the budget. What comes back during the demo is nearly none of it.
const tokensAnHour = 1000

// An item that fails stays away for the backoff, and dies after so many attempts.
const (
	backoff  = time.Second
	attempts = 3
)

// settings are the configurations of the queues, the mark aside.
func settings(name string) client.ConfigChange {
	change := client.ConfigChange{HandOver: new(mark)}
	switch name {
	case tenants:
		change.Lease, change.Fair = new(client.Duration(time.Minute)), new("priority")
	case budget:
		change.Lease, change.CostRate = new(client.Duration(time.Minute)), new(fmt.Sprintf("%d/1h", tokensAnHour))
	case retries, failing:
		change.Lease, change.MaxDeliveries = new(client.Duration(time.Minute)), new(int64(attempts))
		change.Backoff = new(client.Backoff(fmt.Sprintf("[%q]", backoff)))
	}
	return change
}

// queues are the demo's in a store.
type queues struct {
	client *client.Client
	made   []string
}

// turn is the lease of the item of the turnstile: for so long nobody else begins after a demo was killed.
const turn = 10 * time.Second

// take makes the queues. The context ends when they are no longer this demo's. It refuses while others have queues of these names,
// and then changes nothing.
func (q *queues) take(ctx context.Context) (held context.Context, release func(), err error) {
	release = func() {}
	leftovers, err := q.leftovers(ctx)
	if err != nil {
		return ctx, release, err
	}
	item, err := q.enter(ctx)
	if err != nil {
		return ctx, release, err
	}
	q.made = append(q.made, turnstile)
	held, release = item.Hold(ctx)
	for _, name := range leftovers {
		if err := q.client.Queue(name).Delete(held); err != nil && !errors.Is(err, client.ErrNotFound) {
			return held, release, err
		}
	}
	for _, name := range names {
		if _, err := q.client.Queue(name).Configure(held, settings(name)); err != nil {
			return held, release, err
		}
		q.made = append(q.made, name)
	}
	return held, release, nil
}

// leftovers are queues of an earlier demo, that was killed or kept them. A queue that no demo has made is an error.
func (q *queues) leftovers(ctx context.Context) (found []string, err error) {
	for _, name := range append([]string{turnstile}, names...) {
		info, err := q.client.Queue(name).Info(ctx)
		switch {
		case errors.Is(err, client.ErrNotFound):
			continue
		case err != nil:
			return nil, err
		case info.Config.HandOver != mark:
			return nil, fmt.Errorf("there is a queue %s that no demo has made; nothing was done. With --alone the demo has a pqd of its own", name)
		}
		if name != turnstile {
			found = append(found, name)
		}
	}
	return found, nil
}

// enter leases the item of the turnstile.
func (q *queues) enter(ctx context.Context) (*client.Item, error) {
	run := q.client.Queue(turnstile)
	if _, err := run.Configure(ctx, settings(turnstile)); err != nil {
		return nil, err
	}
	if _, err := run.Push(ctx, []byte("who holds this runs the demo"), client.Unique("run")); err != nil {
		return nil, err
	}
	item, err := run.Pop(ctx, client.Min, client.Lease(turn), client.Holder(holder()))
	if !errors.Is(err, client.ErrEmpty) {
		return item, err
	}
	for other, listErr := range run.List(ctx, client.ListOptions{State: client.Leased}) {
		if listErr != nil {
			return nil, listErr
		}
		return nil, fmt.Errorf("a demo runs here already, as %s. If it was killed, another one can begin in %s",
			other.Holder, show.Span(time.Until(other.Due).Round(time.Second)))
	}
	return nil, err
}

// holder is this process.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "" // the process id is enough
	}
	return fmt.Sprintf("%s-%d", cmp.Or(host, "pq"), os.Getpid())
}

// remove deletes the queues, or only the turnstile if they are to be kept. It returns those that are left, with
// the first error, and goes on behind that.
func (q *queues) remove(ctx context.Context, keep bool) (left []string, err error) {
	for _, name := range q.made {
		if keep && name != turnstile {
			left = append(left, name)
			continue
		}
		if removed := q.client.Queue(name).Delete(ctx); removed != nil && !errors.Is(removed, client.ErrNotFound) {
			if left = append(left, name); err == nil {
				err = removed
			}
		}
	}
	return left, err
}
