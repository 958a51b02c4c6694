package fdbpq_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/internal/storecheck"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// world is a store that several processes use, beside the model of it. It does
// one operation after another and compares. Everything that happens in step n
// follows from the seed, n, and what is there, so a run can be replayed, also
// with steps left out.
type world struct {
	ctx       context.Context
	seed      uint64
	open      func() kv.DB
	db        kv.DB
	chances   fault.Chances
	narrow    bool // operations meet in few places, and limits are unlimited
	elapsed   time.Duration
	clock     modelClock
	exclusive bool // the store is one that a single process has open
	processes []*process
	started   int // processes so far
	model     *model
	others    []*model    // what the store may be in as well, after operations that overlapped
	leases    []heldLease // most recent ones
	batches   []batchView // that links have given, on their way
	ids       []knownID
	trace     []string // what was done last
	suffered  harm
}

// process is one of several that use the store, with clocks of its own.
type process struct {
	name      string
	store     *fdbpq.Store
	schedules *schedule.Schedules
	heartbeat *fdbpq.Heartbeat
	db        *fault.DB
	hook      func(fault.Point) // of db, when set
	wall      func() time.Time
	skew      time.Duration
	begun     time.Duration // when its monotonic clock was 0
	ahead     int64         // the model's store time minus that clock
	opened    int64         // the model's store time when it had opened the store

	work    *fdbpq.Work // that its operations belong to; nil: each has its own
	chances fault.Chances
}

func (p *process) queue(name string) fdbpq.Queue {
	if p.work != nil {
		return p.work.Queue(name)
	}
	return p.store.Queue(name)
}

// suffer changes what goes wrong, until the function it returns is called.
func (p *process) suffer(chances fault.Chances) func() {
	p.db.SetChances(chances)
	return func() { p.db.SetChances(p.chances) }
}

// wallStart is what a right wall clock shows at the beginning.
var wallStart = time.Unix(1_800_000_000, 0)

func newWorld(ctx context.Context, open func() kv.DB, seed uint64, processes int, chances fault.Chances) (*world, error) {
	w := &world{
		ctx: ctx, seed: seed, open: open, db: open(), chances: chances,
		processes: make([]*process, processes), model: newModel(), suffered: make(harm),
		exclusive: processes == 1,
	}
	w.model.alone = w.exclusive
	for i := range w.processes {
		if err := w.start(i); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// start replaces a process by a fresh one.
func (w *world) start(i int) error {
	if old := w.processes[i]; old != nil {
		w.suffered.of(old)
		w.processes[i] = nil
	}
	w.started++
	rng := rand.New(rand.NewPCG(w.seed, math.MaxUint64-uint64(w.started)))
	p := &process{name: fmt.Sprint("process ", w.started)}
	p.begun = w.elapsed - time.Duration(rng.IntN(1000))*time.Second // monotonic clocks start anywhere
	p.db = fault.Wrap(w.db, fault.Options{Seed: rng.Uint64(), Hook: func(_ context.Context, at fault.Point) {
		if p.hook != nil {
			p.hook(at)
		}
	}})
	p.skew = []time.Duration{0, 10 * time.Minute, -10 * time.Minute}[rng.IntN(3)]
	p.wall = func() time.Time { return wallStart.Add(w.elapsed + p.skew) }
	last := w.clock
	store, err := fdbpq.Open(w.ctx, p.db, fdbpq.Options{
		Exclusive: w.exclusive,
		Wall:      p.wall,
		Elapsed:   func() time.Duration { return w.elapsed - p.begun },
		Wait: func(_ context.Context, d time.Duration) error {
			w.elapsed += d
			return w.heartbeat(everyProcess)
		},
	})
	if err != nil {
		return err
	}
	w.opened(p, last)
	p.opened = w.now(p)
	p.store, p.heartbeat, p.schedules = store, fdbpq.NewHeartbeat(store), schedule.New(store)
	p.chances = w.chances
	p.db.SetChances(p.chances)
	w.processes[i] = p
	return nil
}

// moment is a process's time: the model's, which the store's has to be.
func (w *world) moment(p *process) (moment, error) {
	defer p.suffer(nil)()
	want := w.now(p)
	now, err := p.store.Now(w.ctx)
	if err == nil && now != want {
		err = fmt.Errorf("store time of %s is %v later than the model's", p.name, time.Duration(now-want))
	}
	return moment{process: p.name, now: want, written: w.clock.time, wall: p.wall(), elapsed: int64(w.elapsed - p.begun), opened: p.opened}, err
}

// do runs an operation on the store and on the model, and compares.
func (w *world) do(p *process, o operation) error {
	at, err := w.moment(p)
	if err != nil {
		return err
	}
	w.note("%s (%s, %v)", o.name, p.name, w.elapsed)
	got, err := w.attempt(p, o)
	for errors.Is(err, kv.ErrUnavailable) {
		got, err = w.attempt(p, o)
	}
	got.Err = kindOf(err)
	return w.compare(o, at, got)
}

// attempt runs an operation until its result is known or it failed for sure.
func (w *world) attempt(p *process, o operation) (got outcome, err error) {
	switch {
	case o.whole != nil:
		return o.whole(w.ctx, p)
	case o.look != nil:
		err = p.store.View(w.ctx, func(r kv.Reader) (err error) {
			got, err = o.look(p, r)
			return err
		})
		return got, err
	}
	session := p.store.Session()
	defer session.Release()
	err = session.Update(w.ctx, func(tx kv.Tx) (err error) {
		got, err = o.run(p, tx)
		return err
	})
	return got, err
}

// compare does the operation to the model and returns a difference as an error.
func (w *world) compare(o operation, at moment, got outcome) error {
	var possible []*model
	var leases []heldLease
	var first string
	for _, m := range append([]*model{w.model}, w.others...) {
		after, want := m.after(o, at, got)
		done := got.done()
		found := after.learn(&want, done)
		diff := difference(want, done)
		if diff == "" {
			possible, leases = append(possible, after), found
		} else if first == "" {
			first = diff
		}
	}
	if len(possible) == 0 {
		return fmt.Errorf("%s: the store differs from the model (-model +store):\n%s", o.name, first)
	}
	w.be(possible, leases, got.done())
	return nil
}

// done is what is left of an outcome: of a transaction that failed only why.
func (o outcome) done() outcome {
	if o.Err != "" {
		return outcome{Err: o.Err}
	}
	return o
}

// be settles on what the store is in, as far as that is known.
func (w *world) be(possible []*model, leases []heldLease, got outcome) {
	w.model, w.others = possible[0], nil
	for _, m := range possible[1:] {
		if !slices.ContainsFunc(append(w.others, w.model), m.equal) {
			w.others = append(w.others, m)
		}
	}
	w.leases = append(w.leases, leases...)
	w.leases = w.leases[max(0, len(w.leases)-30):]
	for _, event := range got.Events {
		if strings.HasPrefix(event, "deleted ") {
			w.suffered["end of an unused queue"]++
		}
	}
	for _, given := range got.Batches {
		if len(given.items) > 0 {
			w.batches = append(w.batches[max(0, len(w.batches)-8):], given)
		}
	}
	for _, pushed := range got.Pushed {
		if pushed.ID != "" && !pushed.Duplicate {
			w.know(pushed.queue, pushed.ID)
		}
	}
}

// after returns what an operation makes of the model, and answers.
func (m *model) after(o operation, at moment, got outcome) (*model, outcome) {
	after := m.clone()
	want := o.expect(after, at, got)
	if want.Err != "" {
		after = m
	}
	return after, want
}

func difference(want, got outcome) string {
	if want.Err != "" || got.Err != "" {
		want, got = outcome{Err: want.Err}, outcome{Err: got.Err}
	}
	want.Events = named(want.Events, got.Events)
	want.Items = displayed(want.Items, got.Items)
	want, got = want.settled(), got.settled()
	if reflect.DeepEqual(want, got) {
		return "" // at a tenth of what cmp takes
	}
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(itemView{}, pushedView{}, batchView{}))
}

// displayed takes times of day as the store shows them: it shows a time the same
// twice, for which it forgives its clocks a millisecond.
func displayed(want, got []itemView) []itemView {
	want = slices.Clone(want)
	for i := range min(len(want), len(got)) {
		if off := time.Duration(want[i].Expires - got[i].Expires); off.Abs() < time.Millisecond {
			want[i].Expires = got[i].Expires
		}
		want[i].Attempts = slices.Clone(want[i].Attempts)
		for n := range min(len(want[i].Attempts), len(got[i].Attempts)) {
			ours, theirs := &want[i].Attempts[n], got[i].Attempts[n]
			for _, times := range [][2]*int64{{&ours.Start, &theirs.Start}, {&ours.End, &theirs.End}} {
				if off := time.Duration(*times[0] - *times[1]); off.Abs() < time.Millisecond {
					*times[0] = *times[1]
				}
			}
		}
	}
	return want
}

func (w *world) know(queue, id string) {
	w.ids = append(w.ids[max(0, len(w.ids)-60):], knownID{queue: queue, id: id})
}

// discover finds out the ids of items to which the store gave them unseen: they stand in the
// model's order.
func (w *world) discover(p *process) error {
	for name, q := range w.model.queues {
		if !slices.ContainsFunc(q.items, func(item modelItem) bool { return item.id == "" }) {
			continue
		}
		for _, state := range []fdbpq.State{fdbpq.StateReady, fdbpq.StateDelayed, fdbpq.StateLeased} {
			if err := w.do(p, listOf(name, listing{state: state, limit: 1000})); err != nil {
				return err
			}
		}
		for _, item := range w.model.queues[name].items {
			if item.id != "" { // otherwise it is not ready, and its import had no answer
				w.know(name, item.id)
			}
		}
	}
	return nil
}

func (w *world) note(format string, args ...any) {
	const kept = 40
	w.trace = append(w.trace[max(0, len(w.trace)-kept):], fmt.Sprintf(format, args...))
}

// named fills ids into what the model expects to happen to items that came to a
// dead-letter queue in the same transaction, so that nobody has seen them yet.
func named(want, got []string) []string {
	want = slices.Clone(want)
	for i, event := range want {
		before, after, unknown := strings.Cut(event, "/ priority")
		for _, seen := range got {
			if unknown && !slices.Contains(want, seen) && strings.HasPrefix(seen, before+"/") && strings.HasSuffix(seen, " priority"+after) {
				want[i], unknown = seen, false
			}
		}
	}
	return want
}

// quietly does an operation that the trace need not show.
func (w *world) quietly(p *process, o operation) error {
	trace := w.trace
	err := w.do(p, o)
	if err == nil {
		w.trace = trace
	}
	return err
}

// same compares all that can be seen of the store with the model, and looks
// for broken invariants.
func (w *world) same(p *process) error {
	if err := w.quietly(p, namesOf(2)); err != nil {
		return err
	}
	for name, q := range w.model.queues {
		for _, o := range []operation{inspectOf(name), schedulesOf(name), showLinksOf(name), allResultsOf(name, q)} {
			if err := w.quietly(p, o); err != nil {
				return err
			}
		}
		for _, state := range []fdbpq.State{fdbpq.StateReady, fdbpq.StateDelayed, fdbpq.StateLeased} {
			if err := w.quietly(p, listOf(name, listing{state: state, limit: 1000})); err != nil {
				return err
			}
		}
	}
	return w.check(p)
}

func (w *world) check(p *process) error {
	defer p.suffer(nil)()
	problems, err := storecheck.Check(w.ctx, p.store)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("the store is damaged:\n%s", strings.Join(problems, "\n"))
	}
	return err
}

// tick lets time pass. As a rule all processes beat, sometimes only some.
func (w *world) tick(rng *rand.Rand, d time.Duration) error {
	w.elapsed += d
	w.note("%v pass", d)
	return w.heartbeat(func() bool { return rng.IntN(20) > 0 })
}

// die lets a process die in the middle of an operation, in one of the three
// ways a commit can end then, and starts another one in its place.
func (w *world) die(i int, kind fault.Kind, o operation, down time.Duration) error {
	p := w.processes[i]
	w.suffered["crash"]++
	at, err := w.moment(p)
	if err != nil {
		return err
	}
	w.note("%s (%s, which dies of %v)", o.name, p.name, kind)
	p.db.Release()
	p.db.SetChances(nil)
	p.db.FailNext(kind)
	runs := 0
	p.hook = func(at fault.Point) {
		if at == fault.BeforeRun {
			runs++
		}
		if runs > 1 {
			p.db.Crash() // while it finds out
		}
	}
	got, err := w.attempt(p, o)
	p.db.Crash()
	late := p.db.Release() > 0
	if !errors.Is(err, kv.ErrUnknown) { // it wrote nothing, so there was nothing to die of, or it found out
		got.Err = kindOf(err)
		got = got.done()
		err = w.compare(o, at, got)
	} else if err = nil; kind == fault.UnknownDone || late {
		err = w.compare(o, at, got)
	}
	if err != nil {
		return err
	}
	if w.exclusive {
		w.elapsed += down
	}
	return w.start(i)
}

// restart closes the engine and opens it again after a while, with new processes.
func (w *world) restart(down time.Duration) error {
	w.note("the engine and all processes start again after %v", down)
	w.suffered["restart of all"]++
	if err := w.close(); err != nil {
		return err
	}
	for i, p := range w.processes {
		w.suffered.of(p)
		w.processes[i] = nil
	}
	w.elapsed += down
	w.db = w.open()
	for i := range w.processes {
		if err := w.start(i); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) close() error {
	for _, p := range w.processes {
		if p != nil { // which did not open the store
			p.db.Release()
		}
	}
	return w.db.Close()
}

// step does the n-th thing.
func (w *world) step(n uint64) error {
	rng := rand.New(rand.NewPCG(w.seed, n))
	i := rng.IntN(len(w.processes))
	p := w.processes[i]
	if rng.IntN(3) == 0 {
		p.db.Release()
	}
	var err error
	switch dice := rng.IntN(1000); {
	case dice < 130:
		err = w.tick(rng, pick(rng, 0, 1, time.Millisecond, 900*time.Millisecond, 3*time.Second, 9*time.Second, 40*time.Second, 3*time.Minute))
	case dice < 140:
		p.skew = time.Duration(rng.IntN(1200)-600) * time.Second
		w.suffered["clock jump"]++
		w.note("the wall clock of %s is off by %v", p.name, p.skew)
	case dice < 150:
		o := w.writing(rng, true)
		err = w.die(i, pick(rng, fault.UnknownNever, fault.UnknownDone, fault.UnknownLate), o, pick(rng, 0, time.Millisecond, 45*time.Second))
	case dice < 160 && dice >= 152:
		err = w.forsake(rng)
	case dice < 152:
		err = w.restart(pick(rng, 0, time.Second, 2*time.Second+1, 45*time.Second, 10*time.Minute))
	case dice < 200:
		err = w.same(p)
	default:
		err = w.do(p, w.operation(rng))
	}
	if err == nil {
		err = w.discover(w.processes[i])
	}
	for _, p := range w.processes {
		if err == nil {
			err = fdbpq.CheckStates(w.ctx, p.store, w.db)
		}
	}
	return err
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }
