package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// job is one that fails.
type job struct {
	queue  *client.Queue
	what   string
	reason string    // of which it fails
	failed time.Time // when it has, last
}

func newJob(ctx context.Context, q *client.Queue, what, reason string) (*job, error) {
	_, err := q.Push(ctx, []byte(what))
	return &job{queue: q, what: what, reason: reason}, err
}

// attempt is the next one, once the job is there again. It says which attempt that is.
func (j *job) attempt(ctx context.Context, p *page, number int) (*client.Item, error) {
	item, err := j.queue.Pop(ctx, client.Min, client.Holder("mailer"), client.Wait(popWait))
	if err != nil {
		return nil, err
	}
	if string(item.Payload) != j.what || item.Deliveries != number {
		return nil, fmt.Errorf("got %q for attempt %d, expected %q for attempt %d", item.Payload, item.Deliveries, j.what, number)
	}
	if number > 1 {
		waited := time.Since(j.failed)
		p.say("%s comes back after %.1f s, for attempt %d.", j.what, waited.Seconds(), item.Deliveries)
		if waited < backoff*9/10 { // clocks of two machines differ
			return nil, fmt.Errorf("%s came back after %s, before its backoff of %s", j.what, waited, backoff)
		}
	}
	return item, nil
}

func (j *job) fail(ctx context.Context, p *page, number int) error {
	item, err := j.attempt(ctx, p, number)
	if err != nil {
		return err
	}
	j.failed = time.Now()
	return item.NackWith(ctx, client.NackOptions{Reason: j.reason})
}

// failAndDie has one job that fails once, and one that fails always. That one has a queue of its own, in which nothing is ever
// acknowledged: pqd says of it that it fails.
func failAndDie(ctx context.Context, d *demo, p *page) error {
	ann, err := newJob(ctx, d.client.Queue(retries), "a mail to ann", "the mail server is busy")
	if err != nil {
		return err
	}
	nobody, err := newJob(ctx, d.client.Queue(failing), "a mail to nobody", "no such address")
	if err != nil {
		return err
	}
	if err := errors.Join(ann.fail(ctx, p, 1), nobody.fail(ctx, p, 1)); err != nil {
		return err
	}
	p.say("%s fails (%s), and so does %s (%s).", ann.what, ann.reason, nobody.what, nobody.reason)
	item, err := ann.attempt(ctx, p, 2)
	if err != nil {
		return err
	}
	if err := item.Ack(ctx); err != nil {
		return err
	}
	if err := expect(ctx, ann.queue, client.Info{}); err != nil {
		return err
	}
	p.say("%s is done.", ann.what)
	if err := nobody.fail(ctx, p, 2); err != nil {
		return err
	}
	info, err := nobody.queue.Info(ctx)
	if err != nil {
		return err
	}
	p.say("It fails again, and pq explain %s says: %s: %s", failing, info.Explain.Cause, info.Explain.Text)
	if info.Explain.Cause != client.CauseFailing {
		return fmt.Errorf("the cause is %s, expected %s", info.Explain.Cause, client.CauseFailing)
	}
	if err := nobody.fail(ctx, p, attempts); err != nil {
		return err
	}
	return autopsy(ctx, d, p, nobody)
}

// autopsy says what the dead letter says of its death.
func autopsy(ctx context.Context, d *demo, p *page, j *job) error {
	var letters []client.Listed
	for letter, err := range d.client.Queue(graveyard).List(ctx, client.ListOptions{Bodies: true}) {
		if err != nil {
			return err
		}
		letters = append(letters, letter)
	}
	if len(letters) != 1 || letters[0].Dead == nil {
		return fmt.Errorf("%s has %d dead letters, expected 1", graveyard, len(letters))
	}
	l := letters[0]
	p.say("%s is a dead letter after %d attempts, the last of which failed of: %s (%s).", l.Body, l.Dead.Deliveries, l.Cause, l.Dead.Reason)
	p.look("pq dead list "+failing, "pq explain "+graveyard)
	if string(l.Body) != j.what || l.Cause != j.reason || l.Dead.Deliveries != attempts || l.Dead.Origin != failing {
		return fmt.Errorf("found %q of %s, dead of %q after %d attempts, expected %q of %s, dead of %q after %d",
			l.Body, l.Dead.Origin, l.Cause, l.Dead.Deliveries, j.what, failing, j.reason, attempts)
	}
	return expect(ctx, j.queue, client.Info{})
}

// hang has a worker that neither settles its lease nor extends it.
func hang(ctx context.Context, d *demo, p *page) error {
	q := d.client.Queue(leases)
	const lease, first, second = time.Second, "worker-1", "worker-2"
	pushed, err := q.Push(ctx, []byte("resize cat.png"))
	if err != nil {
		return err
	}
	began := time.Now()
	hung, err := q.Pop(ctx, client.Min, client.Lease(lease), client.Holder(first))
	if err != nil {
		return err
	}
	held, err := q.Get(ctx, pushed.ID, client.WithExplanation())
	if err != nil {
		return err
	}
	p.say("%s leases %s for %s, and hangs.", first, hung.Payload, lease)
	if held.State == client.Leased { // on a machine that stands still the lease has ended by now
		p.say("pq get says: %s by %s.", held.State, held.Holder)
	}
	got, err := q.Pop(ctx, client.Min, client.Lease(time.Minute), client.Holder(second), client.Wait(popWait))
	if err != nil {
		return err
	}
	waited := time.Since(began)
	p.say("%s gets it after %.1f s, as delivery %d.", second, waited.Seconds(), got.Deliveries)
	if got.ID != pushed.ID || got.Deliveries != 2 || waited < lease*9/10 {
		return fmt.Errorf("%s got %s as delivery %d after %s, expected %s as the second one after %s", second, got.ID, got.Deliveries, waited, pushed.ID, lease)
	}
	late := hung.Ack(ctx)
	p.say("%s wakes up, and its late acknowledgement is refused: %v", first, late)
	if !errors.Is(late, client.ErrLeaseLost) {
		return fmt.Errorf("a late acknowledgement: %w, expected a lost lease", cmp.Or(late, errors.New("it was taken")))
	}
	item, err := q.Get(ctx, pushed.ID, client.WithAttempts())
	if err != nil {
		return err
	}
	if len(item.LastAttempts) != 1 || item.LastAttempts[0].Holder != first || item.LastAttempts[0].Outcome != protocol.OutcomeExpired || item.Holder != second {
		return fmt.Errorf("the item is held by %q, and its attempts are %+v: expected an expired one of %s", item.Holder, item.LastAttempts, first)
	}
	p.say("The item remembers: attempt 1 of %s %s. %s is done.", item.LastAttempts[0].Holder, item.LastAttempts[0].Outcome, second)
	p.look("pq events "+leases, "pq help retries")
	return errors.Join(got.Ack(ctx), expect(ctx, q, client.Info{}))
}
