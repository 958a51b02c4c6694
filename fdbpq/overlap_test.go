package fdbpq_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// When an operation begins and ends while another one is about to commit, both
// answer as if one had come after the other, and that is what they leave
// behind. An operation that forgets what its commit depends on fails here. Some
// calls are slow: minutes pass before they commit.
func TestOverlap(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		overlapWorld(t, open, randomSeed(t), fewer(t, 600), make(harm))
	})
}

func overlapWorld(t *testing.T, open func() kv.DB, seed uint64, rounds int, suffered harm) {
	w, err := newWorld(t.Context(), open, seed, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.suffered = suffered
	defer w.close()
	w.narrow = true
	for n := range uint64(rounds) {
		reran, err := w.round(rand.New(rand.NewPCG(seed, n)))
		if err != nil {
			t.Fatalf("seed %d, round %d: %v\nbefore:\n%s", seed, n, err, strings.Join(w.trace, "\n"))
		}
		if reran {
			suffered[overlapAgain]++
		}
	}
	if err := w.end(); err != nil {
		t.Fatalf("seed %d, end: %v", seed, err)
	}
}

const overlapAgain = "overlap that had to run again"

// overlapped fails where few operations that overlap had to run again. About one in forty has to; of fewer rounds than
// these, chance decides how many, and TestOverlapRunsAgain shows that operations do.
func (h harm) overlapped(t *testing.T, rounds int) {
	t.Helper()
	if rounds >= 10_000 && h[overlapAgain] < rounds/100 {
		t.Errorf("only %d of %d transactions had to run again: the test proves little", h[overlapAgain], rounds)
	}
}

// Of two pops that want the same item, and of which one begins and ends while the other one is
// about to commit, that other one runs again.
func TestOverlapRunsAgain(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		w := worldOf(t, open, 2)
		if err := w.do(w.processes[0], pushOf("a", []pushItem{{payload: "it"}})); err != nil {
			t.Fatal(err)
		}
		pop := popOf("a", justOne(fdbpq.Min, ""), time.Minute)
		reran, err := w.overlap(meeting{p: w.processes[0], o: pop}, meeting{p: w.processes[1], o: pop}, atOnce)
		if err != nil || !reran {
			t.Errorf("ran again: %v, %v, expected that it does", reran, err)
		}
	})
}

// round does a few things one after another, and then two that overlap.
func (w *world) round(rng *rand.Rand) (reran bool, err error) {
	for range rng.IntN(3) {
		if err := w.do(pick(rng, w.processes...), w.operation(rng)); err != nil {
			return false, err
		}
		if err := w.discover(w.processes[0]); err != nil {
			return false, err
		}
	}
	if rng.IntN(4) == 0 {
		if err := w.tick(rng, pick(rng, time.Millisecond, 5*time.Second, time.Minute)); err != nil {
			return false, err
		}
	}
	if q := w.model.queue("a"); q != nil && len(q.items) > 12 {
		if err := w.do(w.processes[0], purgeOf("a", false)); err != nil {
			return false, err
		}
	}
	i := rng.IntN(len(w.processes))
	a := meeting{p: w.processes[i], o: w.meet(rng, true)}
	b := meeting{p: w.processes[(i+1)%len(w.processes)], o: w.meet(rng, false)}
	// A sweep does not do what fell due in the past of those that commit later.
	slow := atOnce
	if a.o.whole == nil && b.o.whole == nil && rng.IntN(4) == 0 {
		w.suffered["slow call"]++
		slow = func() error { return w.tick(rng, pick(rng, time.Second, 6*time.Second, 40*time.Second, 3*time.Minute)) }
	}
	if reran, err = w.overlap(a, b, slow); err == nil && rng.IntN(10) == 0 {
		err = w.check(b.p)
	}
	return reran, err
}

// meet makes up one of two operations that overlap. What is put together from several may
// read a head that changes meanwhile; only a settlement followed by a pop promises more.
func (w *world) meet(rng *rand.Rand, first bool) operation {
	switch dice := rng.IntN(20); {
	case dice < 2:
		return sweepOf()
	case dice < 3 && first:
		return fireOf()
	case dice < 3 && len(w.ids) > 0 && rng.IntN(2) == 0:
		return w.askingForResults(rng)
	case dice < 3:
		return peekOf(w.queueName(rng), w.selection(rng, false))
	case dice < 5 && len(w.leases) > 0 && first:
		return bothOf(w.settling(rng), popOf(w.queueName(rng), w.selection(rng, true), w.lease(rng)))
	}
	if rng.IntN(10) == 0 && len(w.leases) > 0 {
		parts := make([]operation, 2+rng.IntN(5))
		for i := range parts {
			if parts[i] = w.settling(rng); rng.IntN(4) == 0 && len(w.ids) > 0 {
				parts[i] = removeOf(pick(rng, w.ids...))
			}
		}
		return jointOf(parts...)
	}
	return w.writing(rng, false)
}

// meeting is one of two operations that overlap.
type meeting struct {
	p   *process
	o   operation
	at  moment
	got outcome
}

func (m *meeting) run(w *world) error {
	got, err := w.attempt(m.p, m.o)
	if errors.Is(err, kv.ErrUnavailable) {
		return err
	}
	m.got = got
	m.got.Err = kindOf(err)
	m.got = m.got.done()
	return nil
}

// overlap lets b happen while a is about to commit. Before that, slow may let
// time pass.
func (w *world) overlap(a, b meeting, slow func() error) (reran bool, err error) {
	w.note("%s (%s) overlaps %s (%s)", a.o.name, a.p.name, b.o.name, b.p.name)
	before := append([]*model{w.model}, w.others...)
	for _, m := range before {
		m.floor = make(map[string]int64)
		for name, q := range m.queues {
			m.floor[name] = q.high
		}
	}
	if a.at, err = w.moment(a.p); err != nil {
		return false, err
	}
	parked, resume, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	reruns, stopped := a.p.db.Stats().Reruns, false
	a.p.hook = func(at fault.Point) {
		if at == fault.BeforeCommit && !stopped {
			stopped = true
			close(parked)
			<-resume
		}
	}
	go func() { done <- a.run(w) }()
	then := func() (err error) {
		if err = slow(); err != nil {
			return err
		}
		if b.at, err = w.moment(b.p); err != nil {
			return err
		}
		return b.run(w)
	}
	select {
	case <-parked:
		err = then()
		close(resume)
		err = errors.Join(err, <-done)
	case err = <-done: // it failed
		a.p.hook = nil
		err = errors.Join(err, then())
	}
	a.p.hook = nil
	if err != nil {
		return false, err
	}
	if reran = a.p.db.Stats().Reruns > reruns; reran {
		if a.at, err = w.moment(a.p); err != nil {
			return false, err
		}
	}
	var first []meeting
	if a.o.name == sweepOf().name || b.o.name == sweepOf().name {
		first = []meeting{{p: b.p, o: sweepUp()}}
	}
	content, err := w.content(b.p, first)
	if err != nil {
		return false, err
	}
	var differences []string
	var possible []*model
	var leases []heldLease
	for _, m := range before {
		for _, order := range [][2]*meeting{{&a, &b}, {&b, &a}} {
			after, found, diff := m.serial(order, content)
			if diff == "" {
				after.floor = nil
				possible, leases = append(possible, after), found
				continue
			}
			differences = append(differences, fmt.Sprintf("if %s came first (-model +store):\n%s", order[0].o.name, diff))
		}
	}
	if len(possible) == 0 {
		for _, m := range before {
			if after, found := m.apart(&a, &b, content); after != nil {
				after.floor = nil
				possible, leases = append(possible, after), found
			}
		}
	}
	for _, m := range before {
		if len(possible) == 0 && !reran { // what ran again saw all that the other one did
			if after, found := m.overlooked(&a, &b, content); after != nil {
				after.floor = nil
				possible, leases = append(possible, after), found
			}
		}
	}
	for _, m := range before {
		if len(possible) == 0 && a.o.name == fireOf().name {
			if after, found := m.unseen(&a, &b, content); after != nil {
				possible, leases = append(possible, after), found
			}
		}
	}
	if len(possible) == 0 {
		return false, fmt.Errorf("%s overlapped %s:\n%s", a.o.name, b.o.name, strings.Join(differences, "\n"))
	}
	var both outcome
	both.add(a.got)
	both.add(b.got)
	w.be(possible, leases, both)
	return reran, nil
}

// atOnce is how calls that are not slow go on.
func atOnce() error { return nil }

// sweepUp sweeps once more. A sweep is several things, and what overlaps it may
// come between them: a pop that was under way passes over an item whose lease
// has just ended, but its id is remembered after others were forgotten.
func sweepUp() operation {
	sweep := sweepOf()
	return operation{
		name: "sweep up",
		whole: func(ctx context.Context, p *process) (outcome, error) {
			_, err := sweep.whole(ctx, p)
			return outcome{}, err
		},
		expect: func(m *model, at moment, got outcome) outcome {
			sweep.expect(m, at, got)
			return outcome{}
		},
	}
}

// content is all that can be seen of the store after first.
func (w *world) content(p *process, first []meeting) ([]meeting, error) {
	if err := w.hold(p, first); err != nil {
		return nil, err
	}
	names := meeting{p: p, o: namesOf(100)}
	if err := names.run(w); err != nil {
		return nil, err
	}
	all := []meeting{names}
	for _, queue := range names.got.Events {
		all = append(all, meeting{p: p, o: inspectOf(queue)}, meeting{p: p, o: schedulesOf(queue)})
		for _, state := range []fdbpq.State{fdbpq.StateReady, fdbpq.StateDelayed, fdbpq.StateLeased} {
			all = append(all, meeting{p: p, o: listOf(queue, listing{state: state, limit: 1000})})
		}
	}
	if n := len(w.ids); n > 0 {
		all = append(all, meeting{p: p, o: resultsOf(w.ids[max(0, n-8):]...)})
	}
	if err := w.hold(p, all); err != nil {
		return nil, err
	}
	return append(first, all...), nil
}

// hold runs operations one after another, at one moment.
func (w *world) hold(p *process, meetings []meeting) error {
	at, err := w.moment(p)
	if err != nil {
		return err
	}
	for i := range meetings {
		meetings[i].at = at
		if err := meetings[i].run(w); err != nil {
			return err
		}
	}
	return nil
}

// counted are the reasons that counters give.
var counted = map[fdbpq.Reason]bool{fdbpq.ReasonLeased: true, fdbpq.ReasonDelayed: true, fdbpq.ReasonBand: true, fdbpq.ReasonEmpty: true}

// serial does two operations to a copy of the model one after the other and
// compares what they answer and what is there then.
func (m *model) serial(order [2]*meeting, content []meeting) (after *model, leases []heldLease, diff string) {
	after = m
	for _, m := range order {
		var want outcome
		after, want = after.after(m.o, m.at, m.got)
		held, diff := after.compare(m, want)
		if diff != "" {
			return nil, nil, diff
		}
		leases = append(leases, held...)
	}
	after, diff = after.contains(content)
	return after, leases, diff
}

// unseen is serial for a fire that does not see a schedule which the other operation makes: it looks for what is due in a
// snapshot, and finds the schedule the next time. The clock of schedules, which it may set, holds from then on.
func (m *model) unseen(fire, other *meeting, content []meeting) (after *model, leases []heldLease) {
	before := m.clone()
	before.firing.sees = append([]dueSchedule{}, before.looked()...)
	after, leases, diff := before.serial([2]*meeting{other, fire}, content)
	if diff != "" {
		return nil, nil
	}
	after.floor, after.firing.sees = nil, nil
	return after, leases
}

// overlooked is serial for a bulk operation that comes second, and does not see what the first
// one put where it looks. It finds its items in a snapshot, and its commit depends on those that
// it changes: a dependency on all that it read would have pops and settlements undo page after
// page, and it promises no more than that items which others take at the same time are theirs or
// its own. So a pop need not see an item whose lease a revoke ends, nor the revoke the lease that
// the pop gives meanwhile, although each of them would see it if it came second. The pop of a
// strict queue does see it if it commits last, as a does.
func (m *model) overlooked(a, b *meeting, content []meeting) (after *model, leases []heldLease) {
	for _, order := range [][2]*meeting{{a, b}, {b, a}} {
		first, bulk := order[0], *order[1]
		q := m.queue(first.o.pops)
		if bulk.o.amongThese == nil || first == a && q != nil && q.config.Strict {
			continue
		}
		bulk.o = bulk.o.amongThese(m, bulk.at)
		if after, leases, diff := m.serial([2]*meeting{first, &bulk}, content); diff == "" {
			return after, leases
		}
	}
	return nil, nil
}

// compare compares what the model says to one of two operations that overlap with what the
// store said, and learns from it.
func (m *model) compare(done *meeting, want outcome) (leases []heldLease, diff string) {
	got := done.got
	leases = m.learn(&want, got)
	// What counters say is not a promise of what overlaps: the number of items
	// in a queue, and whether what it lacks is leased or delayed. A purge of a strict queue says how many items it removes.
	want.Ready, got.Ready = 0, 0
	if q := m.queue(done.o.purges); q == nil || !q.config.Strict {
		want.N, got.N = 0, 0
	}
	if counted[want.Reason] && counted[got.Reason] {
		want.Reason, got.Reason = "", ""
	}
	if diff = difference(want, got); diff != "" {
		return nil, done.o.name + ":\n" + diff
	}
	return leases, ""
}

// contains compares the model with all that is there.
func (m *model) contains(content []meeting) (after *model, diff string) {
	after = m.clone()
	after.adopt(content)
	for _, m := range content {
		var want outcome
		after, want = after.after(m.o, m.at, m.got)
		after.adopt(content) // of what died only now, in the sweep
		if diff := difference(want, m.got); diff != "" {
			return nil, m.o.name + ":\n" + diff
		}
	}
	return after, ""
}

// apart is serial for settlements in one transaction beside a pop of a queue that is not
// strict. Such a pop depends on the items that it takes, not on those that become ready in
// front of them. So some of the settlements may come before it and others behind: each is a
// request of its own.
func (m *model) apart(a, b *meeting, content []meeting) (after *model, leases []heldLease) {
	if b.o.parts != nil {
		a, b = b, a
	}
	if q := m.queue(b.o.pops); a.o.parts == nil || q == nil || q.config.Strict {
		return nil, nil
	}
	for first := range 1 << len(a.o.parts) {
		if after, leases = m.around(a, b, first, content); after != nil {
			return after, leases
		}
	}
	return nil, nil
}

// around does those parts of a joint operation before another one that are in first, and the
// rest behind it.
func (m *model) around(joint, other *meeting, first int, content []meeting) (after *model, leases []heldLease) {
	after = m.clone()
	answers := make([]outcome, len(joint.o.parts))
	do := func(chosen int) bool {
		for i, part := range joint.o.parts {
			if chosen&(1<<i) == 0 {
				continue
			}
			if answers[i] = part.expectPart(after, joint.at, joint.got); answers[i].Err != "" {
				return false
			}
		}
		return true
	}
	if !do(first) {
		return nil, nil
	}
	after, want := after.after(other.o, other.at, other.got)
	leases, diff := after.compare(other, want)
	if after = after.clone(); diff != "" || !do(^first) {
		return nil, nil
	}
	var all outcome
	for _, answer := range answers {
		all.add(answer)
	}
	if _, diff = after.compare(joint, all); diff != "" {
		return nil, nil
	}
	if after, diff = after.contains(content); diff != "" {
		return nil, nil
	}
	return after, leases
}

// adopt gives dead letters and items of schedules the ids and places that the
// store chose for them.
func (m *model) adopt(content []meeting) {
	for _, q := range m.queues {
		for i := range q.items {
			item := &q.items[i]
			if item.id != "" {
				continue
			}
			for _, seen := range content {
				if seen.o.lists != q.name {
					continue
				}
				n := slices.IndexFunc(seen.got.Items, func(v itemView) bool {
					return v.Dead == item.dead && v.Size == item.size() && v.Headers == digest(item.headers) && q.byID(v.ID) == nil && v.Seq > m.floor[q.name]
				})
				if n >= 0 {
					m.found(q, item, seen.got.Items[n])
					break
				}
			}
		}
	}
}
