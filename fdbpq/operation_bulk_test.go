package fdbpq_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// bulking is a bulk operation, of which all pages are in one transaction.
type bulking struct {
	verb     fdbpq.BulkVerb
	dry      bool
	page     int  // changes of each
	begins   bool // with a page that does nothing
	priority int64
	revoke   fdbpq.Revocation
	to       string

	state          fdbpq.State
	band           *fdbpq.Band
	key, holder    string
	reason, origin string // which may end in *
	cause          string // likewise
	before, after  int64  // of the push, by a wall clock; 0: any
	deliveries     int64
	interruptions  int64
	header         string // what the headers contain
}

func textOf(s string) *fdbpq.Text {
	if s == "" {
		return nil
	}
	text, prefix := strings.CutSuffix(s, "*")
	return &fdbpq.Text{Text: text, Prefix: prefix}
}

func bulkOf(queue string, b bulking) operation {
	ask := fdbpq.Bulk{
		Verb: b.verb, DryRun: b.dry, Limit: b.page, Priority: b.priority, Revoke: b.revoke, To: b.to,
		Where: fdbpq.Where{
			State: b.state, Band: b.band, Key: b.key, Holder: b.holder, Reason: textOf(b.reason), Origin: textOf(b.origin), Cause: textOf(b.cause),
			Deliveries: b.deliveries, Interruptions: b.interruptions,
		},
	}
	if b.before != 0 {
		ask.Where.PushedBefore = time.Unix(0, b.before)
	}
	if b.after != 0 {
		ask.Where.PushedAfter = time.Unix(0, b.after)
	}
	if b.header != "" {
		ask.Where.Headers = func(block []byte) bool { return bytes.Contains(block, []byte(b.header)) }
	}
	bulk := operation{
		name: fmt.Sprintf("bulk %s %+v", queue, b),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			var all outcome
			ask := ask
			if b.begins {
				ask.Limit = 0
			}
			for {
				done, err := p.queue(queue).Bulk(tx, ask)
				if err != nil || done.Err != nil {
					return outcome{Pushed: []pushedView{{Err: kindOf(done.Err)}}}, err
				}
				if all.OK = true; done.Done > ask.Limit || done.Done > done.Looked {
					return all, fmt.Errorf("a page of %d: %+v", ask.Limit, done)
				}
				all.N += int64(done.Done)
				all.Events = append(all.Events, eventsOf(done.Events)...)
				if done.Stopped != nil {
					all.Err = kindOf(done.Stopped)
					all.Reason, all.Err = fdbpq.Reason(all.Err), ""
				}
				if done.Next == nil || done.Stopped != nil {
					return all, nil
				}
				if ask.After, err = fdbpq.ParseBulkCursor(done.Next.String()); err != nil {
					return all, err
				}
				ask.Limit = b.page
			}
		},
		expect: using(queue, func(m *model, at moment, _ outcome) outcome { return m.bulk(queue, b, at, m.fitting(queue, b, at)) }),
	}
	bulk.amongThese = func(before *model, at moment) operation {
		found, of := before.fitting(queue, b, at), bulk
		of.expect = using(queue, func(m *model, at moment, _ outcome) outcome {
			fitting := slices.DeleteFunc(m.fitting(queue, b, at), func(item modelItem) bool {
				return !slices.ContainsFunc(found, func(known modelItem) bool { return known.number == item.number })
			})
			return m.bulk(queue, b, at, fitting)
		})
		return of
	}
	return bulk
}

// fits reports whether the operation is about an item.
func (b *bulking) fits(item *modelItem, at moment) bool {
	text := func(pattern, s string) bool {
		begin, prefix := strings.CutSuffix(pattern, "*")
		return pattern == "" || item.dead != (fdbpq.DeadLetter{}) && (s == begin || prefix && strings.HasPrefix(s, begin))
	}
	switch {
	case item.state == fdbpq.StateLeased && item.since > at.now, // a clock that is ahead gave the lease, or a link holds it
		b.verb == fdbpq.BulkMove && b.priority == item.lastPriority(),
		b.verb == fdbpq.BulkRequeue && (item.dead == (fdbpq.DeadLetter{}) || item.dead.Origin != b.to):
		return false
	}
	return (b.band == nil || item.priority >= b.band.Low && item.priority <= b.band.High) &&
		(b.key == "" || item.key == b.key) && (b.holder == "" || item.holder == b.holder) &&
		text(b.reason, item.dead.Reason) && text(b.origin, item.dead.Origin) && b.causedBy(item.cause()) &&
		(b.before == 0 || item.pushed < b.before) && (b.after == 0 || item.pushed >= b.after) &&
		item.deliveries() >= b.deliveries && item.interruptions >= b.interruptions && strings.Contains(item.headers, b.header)
}

// causedBy reports whether the operation is about what failed of this.
func (b *bulking) causedBy(cause string) bool {
	begin, prefix := strings.CutSuffix(b.cause, "*")
	return b.cause == "" || cause != "" && (cause == begin || prefix && strings.HasPrefix(cause, begin))
}

// cause is what the item failed of. Deaths of failures and interruptions were those of an attempt.
func (i *modelItem) cause() string {
	all := i.attempts.all()
	switch i.dead.Reason {
	case "", "max_deliveries", "interruptions":
		if len(all) > 0 && all[len(all)-1].Reason != "" {
			return all[len(all)-1].Reason
		}
	}
	return i.dead.Reason
}

// failedOf is the cause of a death, if its reason does not say it.
func (i *modelItem) failedOf(reason string) string {
	dead := *i
	if dead.dead.Reason = reason; dead.cause() != reason {
		return dead.cause()
	}
	return ""
}

// lastPriority is the one that the item has, or returns to.
func (i *modelItem) lastPriority() int64 {
	if i.state == fdbpq.StateLeased {
		return i.returnPriority
	}
	return i.priority
}

// fitting are the items that a bulk operation is about.
func (m *model) fitting(queue string, b bulking, at moment) (all []modelItem) {
	if q := m.queue(queue); q != nil {
		for _, item := range q.in(b.state) {
			if b.fits(item, at) {
				all = append(all, *item)
			}
		}
	}
	return all
}

// bulk does to each item that fits what the operation on one item does.
func (m *model) bulk(queue string, b bulking, at moment, fitting []modelItem) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{Err: "no queue"}
	}
	home := m.queue(b.to)
	if b.verb == fdbpq.BulkRequeue && (b.to == queue || queue != b.to+"-dead" && (home == nil || home.config.DeadLetter != queue)) {
		return outcome{Pushed: []pushedView{{Err: "requeue"}}}
	}
	out := outcome{OK: true}
	var would []modelItem
	for _, item := range fitting {
		if b.verb == fdbpq.BulkRequeue && home != nil && home.overfull(append(append([]modelItem(nil), home.items...), append(would, item)...)) {
			out.Reason = "full"
			return out
		}
		out.N++
		switch {
		case b.dry:
			would = append(would, item)
		case b.verb == fdbpq.BulkRemove:
			m.withdraw(q, at, &item, modelResult{finish: fdbpq.FinishRemoved}, &out)
			if item.id == "" && m.floor != nil {
				q.unseen++ // it died while this page was under way
			}
		case b.verb == fdbpq.BulkMove:
			q.byNumber(item.number).move(b.priority)
		case b.verb == fdbpq.BulkRevoke:
			held := q.byNumber(item.number)
			held.fence++
			held.takenAway = true
			m.takeBack(q, at, held, fdbpq.EventRevoked, "revoked", b.revoke.Reason, min(at.now, held.due), b.revoke.Delay, &out)
		case b.verb == fdbpq.BulkRequeue:
			m.use(b.to, at)
			home = m.create(b.to)
			q.remove(item.number)
			number := m.add(home, m.requeued(home, item, pushedView{}, at))
			m.finish(q, at, &item, modelResult{finish: fdbpq.FinishHandedOver, next: b.to, nextNumber: number})
		}
	}
	return out
}

// bulking generates a bulk operation.
func (w *world) bulking(rng *rand.Rand) operation {
	queue := w.queueName(rng)
	b := bulking{
		verb: pick(rng, fdbpq.BulkRemove, fdbpq.BulkMove, fdbpq.BulkRevoke, fdbpq.BulkRequeue, fdbpq.BulkRequeue), dry: rng.IntN(3) == 0,
		page: pick(rng, 1, 2, 500), begins: rng.IntN(2) == 0, priority: w.priority(rng),
		state: pick(rng, fdbpq.StateReady, fdbpq.StateReady, fdbpq.StateDelayed, fdbpq.StateLeased),
	}
	switch b.verb {
	case fdbpq.BulkRevoke:
		b.state = fdbpq.StateLeased
		b.revoke.Reason = pick(rng, "", "they\nhang")
		if rng.IntN(2) == 0 {
			b.revoke.Delay = new(pick(rng, 0, time.Millisecond, 30*time.Second))
		}
	case fdbpq.BulkRequeue:
		if w.narrow { // nobody learns which of several new items is which
			b.verb = fdbpq.BulkRemove
			break
		}
		queue, b.to = pick(rng, "a-dead", "a-dead", "b-dead", "grave", queue), pick(rng, "a", "a", "b", "elsewhere")
	}
	for range rng.IntN(3) {
		switch rng.IntN(11) {
		case 10:
			b.cause = pick(rng, "max_deliveries", "interruptions", "poison", "p*", "try*", "they*", "*")
		case 9:
			b.interruptions = pick[int64](rng, 1, 2)
		case 0:
			b.band = &fdbpq.Band{Low: w.priority(rng), High: w.priority(rng)}
		case 1, 2:
			b.key = w.key(rng)
		case 3:
			b.reason = pick(rng, "max_deliveries", "interruptions", "max*", "poison", "*")
		case 4:
			b.origin = pick(rng, "a", "b*", "*")
		case 5:
			b.deliveries = pick[int64](rng, 1, 2)
		case 6:
			b.header = pick(rng, "headers", "header\x00", "\xff")
		case 7:
			b.after = wallStart.Add(w.elapsed - pick(rng, 0, time.Second, 10*time.Minute)).UnixNano()
		case 8:
			b.before = wallStart.Add(w.elapsed - pick(rng, 0, time.Second, 10*time.Minute)).UnixNano()
		}
	}
	if b.state == fdbpq.StateLeased && rng.IntN(3) == 0 {
		b.holder = pick(rng, "w1", "w2")
	}
	return bulkOf(queue, b)
}
