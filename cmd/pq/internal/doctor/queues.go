package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

// mostQueues is how many queues are looked at.
const mostQueues = 10_000

// queues looks for queues that need attention. It asks for them a page at a time: there may be
// more than are read in the time for one answer.
func (d *doctor) queues() {
	found, feeds, gives, left := new(remarks), &sources{doctor: d}, &links{doctor: d}, new(figures.Unasked)
	seen, after := 0, ""
	for page := 0; page == 0 || after != "" && seen < d.mostQueues; page++ {
		var infos []*client.Info
		permitted, err := d.try(func(ctx context.Context) (err error) {
			infos, after, err = d.queuesBehind(ctx, after, left)
			return err
		})
		switch {
		case !permitted:
			d.note(fine, "queues", "not known: this user may not see them")
			return
		case errors.Is(err, client.ErrNotFound):
			d.note(warn, "queues", "there is no queue %s yet: the first push makes it", d.queue)
			return
		case err != nil:
			found.note(d)
			d.note(bad, "queues", "after %s: %v", show.Many(int64(seen), "queue"), err)
			return
		}
		seen += len(infos)
		for _, i := range infos {
			examineQueue(i, leasedLong(i) && !takesLong(d, i), failsOften(d, i), found.add)
		}
		feeds.examine(infos, found.add)
		gives.examine(infos, found.add)
	}
	feeds.again(found.add)
	found.note(d)
	for _, line := range left.Lines() {
		d.note(warn, "queues", "%s", line)
	}
	looked := show.Many(int64(seen), "queue")
	switch {
	case after != "":
		d.note(warn, "queues", "there are more than the %s that were looked at: \"pq doctor <queue>\" looks at one", looked)
	case len(found.kinds) == 0:
		d.note(fine, "queues", "%s, nothing to remark", looked)
	case d.queue == "":
		d.note(fine, "queues", "%s looked at", looked)
	}
}

// queuesBehind asks about a page of queues, or about the one that was given.
func (d *doctor) queuesBehind(ctx context.Context, after string, left *figures.Unasked) (infos []*client.Info, next string, err error) {
	if d.queue != "" {
		info, err := d.client.Queue(d.queue).Info(ctx)
		return []*client.Info{info}, "", err
	}
	page, err := d.client.QueuesPage(ctx, client.QueuesOptions{After: after, Limit: figures.NamesPage})
	if err != nil {
		return nil, "", err
	}
	left.Note(page)
	infos, err = figures.InfosOf(ctx, d.client, page.Queues, left)
	return infos, page.Next, err
}

// kind is a kind of remark. The text ends "3 more queues …".
type kind string

const (
	takesNone  kind = "take no push"
	holdsDead  kind = "hold dead letters"
	waitsLong  kind = "have items that wait for long"
	leasesLong kind = "have leases that last for long"
	starves    kind = "have items that wait behind more urgent ones"
	fails      kind = "have items that fail"
	failsSome  kind = "have items that fail, too few for a warning"
	costMore   kind = "have items that cost more than their pushes say"
	costLess   kind = "have items that cost less than their pushes say"
	mostOfKind      = 10 // remarks of a kind that are printed
)

// stands is the kind of queues whose items this keeps.
func stands(c protocol.Cause) kind { return kind("stand (" + figures.Word(c) + ")") }

// verdict is how bad it is: a push that is refused may be lost.
func (k kind) verdict() verdict {
	switch k {
	case takesNone:
		return bad
	case failsSome, costLess, stands(protocol.CauseRate): // a rate is there to be reached
		return fine
	}
	return warn
}

// remarks are those about all queues.
type remarks struct {
	kinds []kind // in the order in which they were found
	texts map[kind][]string
	more  map[kind]int64
}

func (r *remarks) add(k kind, format string, args ...any) {
	if r.texts == nil {
		r.texts, r.more = make(map[kind][]string), make(map[kind]int64)
	}
	switch n := len(r.texts[k]); {
	case n == 0:
		r.kinds = append(r.kinds, k)
	case n == mostOfKind:
		r.more[k]++
		return
	}
	r.texts[k] = append(r.texts[k], fmt.Sprintf(format, args...))
}

func (r *remarks) note(d *doctor) {
	for _, k := range r.kinds {
		for _, text := range r.texts[k] {
			d.note(k.verdict(), "queues", "%s", text)
		}
		if n := r.more[k]; n > 0 {
			d.note(k.verdict(), "queues", "and %s more queues %s: \"pq ls\" shows all", show.Thousands(n), k)
		}
	}
}

const (
	// unattended is the age of an unpopped item from which doctor warns.
	unattended = time.Hour

	// A lease lasts for long, whatever the queue's, or beside that: as for the alert PqLeaseHeld. Where no worker takes
	// another item, a shorter time is long: as for the alert PqWorkersHang.
	longLease  = 12 * time.Hour
	hangs      = 10 * time.Minute
	allHang    = 5 * time.Minute
	manyLeases = 10
)

// leasedLong reports whether the oldest lease of a queue has lasted for long.
func leasedLong(i *client.Info) bool {
	held, lease := show.Seconds(i.OldestLease), time.Duration(i.Config.Lease)
	stands := i.HeldFor() > 0 && show.Seconds(i.LatestLease) > allHang
	return held > longLease || lease > 0 && held > manyLeases*lease && (held > hangs || stands)
}

func examineQueue(i *client.Info, leasedLong, fails bool, remark func(k kind, format string, args ...any)) {
	e := &i.Explain
	origin, dead := show.DeadLettersOf(i.Queue)
	says := func(k kind) {
		remark(k, "%s (%s): %s", i.Queue, figures.Word(e.Cause), show.Why(i.Queue, e))
	}
	refused := e.Refuses != "" && e.Refuses != protocol.ReasonStoreFull // of the store others say it, and once
	if refused {
		says(takesNone)
	}
	if fails {
		examineFailures(i, remark)
	}
	examineCost(i, remark)
	switch age, oldest := show.Seconds(i.Oldest), show.Seconds(i.OldestOfAll); {
	case dead && i.Ready > 0: // nobody has to ask for them
		remark(holdsDead, `%s holds %s: "%s" says why, "%s" tries them again`,
			i.Queue, show.Many(i.Ready, "dead letter"), show.Command("dead list", []string{origin}), show.Command("dead requeue", []string{origin}, "--all"))
	case refused:
	case i.Replies() && e.Cause == protocol.CauseNoWorkers:
	case e.Cause == protocol.CauseFailing && fails: // said above
	case e.Cause == protocol.CauseFailing: // one attempt that failed is what retries are for
		remark(failsSome, "%s (failing), too few attempts for a warning: %s", i.Queue, show.Why(i.Queue, e))
	case e.Cause == protocol.CauseRate && age > unattended:
		says(waitsLong)
	case e.Cause.Wrong() && e.Cause != protocol.CauseStoreFull:
		says(stands(e.Cause))
	case e.Cause == protocol.CauseDeadLetters:
		says(holdsDead)
	case leasedLong && e.Cause == protocol.CauseLeased:
		says(leasesLong)
	case leasedLong:
		remark(leasesLong, `%s has an item that has been leased for %s: "%s" shows who holds it, "pq revoke" takes it away`,
			i.Queue, show.Span(show.Seconds(i.OldestLease)), show.Command("list", []string{i.Queue}, "--state leased"))
	case i.Ready > 0 && age > unattended && e.Cause == protocol.CauseLeased:
		says(waitsLong)
	case i.Ready > 0 && age > unattended && i.Rates.Pop < 0.1:
		remark(waitsLong, "%s has %s, the next of them waiting for %s, and few are taken: start more workers", i.Queue, show.Many(i.Ready, "item"), show.Span(age))
	case oldest > unattended && age < oldest/2:
		remark(starves, "%s has an item that has waited for %s behind more urgent ones: make deadlines its priorities, or start more workers", i.Queue, figures.OldestOf(i.Ready, i.OldestOfAll, i.OldestAtLeast))
	}
}

// failsOften reports whether more attempts of a queue fail than succeed, as far as a bridge saw them in the last ten minutes. It
// asks only where some fail.
func failsOften(d *doctor, i *client.Info) bool {
	if i.Explain.Cause != protocol.CauseFailing && i.Rates.Nack < i.Rates.Settle/2 || i.Rates.Nack == 0 {
		return false
	}
	h := historyOf(d, i.Queue)
	return h != nil && h.Fails()
}

// examineFailures says that the attempts of a queue fail, and of what.
func examineFailures(i *client.Info, remark func(k kind, format string, args ...any)) {
	why := show.Why(i.Queue, &i.Explain)
	options := "--attempts"
	if i.Delayed > 0 { // where the items that have failed wait for their backoff
		options = "--state delayed " + options
	}
	switch {
	case i.Explain.Cause == protocol.CauseFailing:
		remark(fails, "%s (failing): %s", i.Queue, why)
	case i.Explain.Failing > 0:
		remark(fails, "%s: more attempts fail than succeed. %s", i.Queue, why)
	default:
		remark(fails, `%s: more attempts fail than succeed: "%s" shows the last attempts`, i.Queue, show.Command("list", []string{i.Queue}, options))
	}
}

// enoughToSay is for how much cost a queue's guesses are compared with the truth.
const enoughToSay = 1000

// examineCost compares what deliveries have cost with what they reserved. Where they cost a tenth more, the service behind them sees
// more than the cost rate says. Less is use of a budget by those who reserve the worst case, and remarkable from a half on.
func examineCost(i *client.Info, remark func(k kind, format string, args ...any)) {
	c := i.Cost
	switch {
	case c == nil || c.Reserved < enoughToSay:
	case c.Spent > c.Reserved+c.Reserved/10:
		remark(costMore, "%s: its items have cost %s, and their pushes said %s: correct the cost of the pushes (--cost)",
			i.Queue, show.Thousands(c.Spent), show.Thousands(c.Reserved))
	case c.Spent <= c.Reserved/2:
		remark(costLess, "%s: its items have cost %s of the %s that their pushes reserved (%d %%)",
			i.Queue, show.Thousands(c.Spent), show.Thousands(c.Reserved), c.Spent*100/c.Reserved)
	}
}

// historyOf is that of a queue, nil if no bridge tells it.
func historyOf(d *doctor, queue string) (h *client.History) {
	_, err := d.try(func(ctx context.Context) (err error) {
		h, err = d.client.Queue(queue).History(ctx)
		return err
	})
	if err != nil {
		return nil
	}
	return h
}

// manyJobs is how many times as long as its other jobs one of a queue takes that hangs.
const manyJobs = 10

// takesLong reports whether other jobs of a queue took about as long in the last hour, as far as a bridge saw them: workers that
// extend their leases take their time there.
func takesLong(d *doctor, i *client.Info) bool {
	h := historyOf(d, i.Queue)
	return h != nil && show.Seconds(i.OldestLease) < manyJobs*usual(h, show.Seconds(i.LatestLease))
}

// usual is how long a job took on average, before the time in which no lease began; 0: none has ended.
func usual(h *client.History, stands time.Duration) time.Duration {
	var leased, settled int64
	for n, at := range h.Leased[:max(0, len(h.Leased)-int(stands.Seconds()/max(1, h.Step)))] {
		if at != nil {
			leased += *at
		}
		if n < len(h.Settle) {
			settled += h.Settle[n]
		}
	}
	if settled == 0 {
		return 0
	}
	return show.Seconds(float64(leased) * h.Step / float64(settled))
}
