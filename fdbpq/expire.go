package fdbpq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/storetime"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A queue with expire_empty deletes itself when it was empty and unused for that time. It has two rows that no other queue has: when
// it was last used, and when a timer looks whether it still is. Whoever pushes to it, pops from it, settles or edits items of it writes
// the first one, blindly, when it is older than a tenth of the time. What is in the queue needs no such row: the timer looks for it.
//
// The transaction that deletes the queue depends on all that keeps it, and on the row of its last use, and everybody else depends on
// the state of the queue, which it writes. So of the two the later one runs again. It counts as a delete: a push that comes later makes
// another queue of this name.

// tenth is how old the row of a queue's last use becomes at most, and what it may miss.
func tenth(after Duration) int64 { return int64(after) / 10 }

func usedRow(queue string) []byte { return layout.QueueRow(layout.SpaceUsed, queue) }

func lookRow(queue string) []byte { return layout.QueueRow(layout.SpaceLook, queue) }

// disuse finds out whether somebody uses the queue.
type disuse struct{ *queueRows }

// expires reports whether the queue deletes itself one day.
func (d disuse) expires() bool { return d.there() && d.state.config.ExpireEmpty > 0 }

// use notes that somebody uses the queue.
func (d disuse) use() error {
	if !d.expires() || d.noted {
		return nil
	}
	d.noted = true
	if d.store.marks.recent(d.name, d.state.config.ExpireEmpty, d.store.inside.Clock.Now()) {
		return nil
	}
	used, wrote, err := d.mark()
	if err == nil && !wrote && used+int64(kv.MaxTxAge) <= d.storeTime { // otherwise this transaction may have written it, and may not commit
		d.store.marks.know(d.name, used)
	}
	return err
}

// mark writes that the queue is in use now, unless the store has a time that suffices, and reports what it has from then on.
func (d disuse) mark() (used int64, wrote bool, err error) {
	now, err := d.now()
	if err != nil {
		return 0, false, err
	}
	row, err := d.snapshot.Get(usedRow(d.name))
	if err != nil {
		return 0, false, err
	}
	if used = int64(kv.DecodeInteger(row)); used+tenth(d.state.config.ExpireEmpty) > now {
		return used, false, nil
	}
	d.tx.Max(usedRow(d.name), uint64(now))
	return now, true, nil
}

// begin has the queue delete itself, from now on at the earliest. Pops and waits for results run again, so that their processes learn
// whose use they have to note.
func (d disuse) begin() error {
	if err := d.end(); err != nil || !d.expires() {
		return err
	}
	now, err := d.now()
	if err != nil {
		return err
	}
	d.tx.Max(usedRow(d.name), uint64(now))
	d.look(now + int64(d.state.config.ExpireEmpty))
	d.tx.Add(layout.QueueRow(layout.SpaceArrivals, d.name), 1)
	d.results.tell()
	return nil
}

// end clears the rows and the timer of a queue that deletes itself no more. Earlier programs, which may serve it again, know no such timer.
func (d disuse) end() error {
	due, err := d.lookDue(d.tx)
	if err != nil || due == 0 {
		return err
	}
	for _, key := range [][]byte{usedRow(d.name), lookRow(d.name), layout.IDTimerKey(due, layout.TimerUnused, d.name, "")} {
		d.tx.Clear(key)
	}
	return nil
}

// look sets the timer that looks whether the queue is in use.
func (d disuse) look(due int64) {
	d.store.alarm.expect(due)
	d.tx.Set(lookRow(d.name), tuple.AppendInt(nil, due))
	d.tx.Set(layout.IDTimerKey(due, layout.TimerUnused, d.name, ""), nil)
}

// lookDue is when the timer is due, 0 without one.
func (d disuse) lookDue(r kv.Reader) (int64, error) {
	row, err := r.Get(lookRow(d.name))
	if err != nil || row == nil {
		return 0, err
	}
	due, _, err := tuple.ConsumeInt(row)
	if err != nil {
		return 0, fmt.Errorf("damaged time of a look: %w", err)
	}
	return due, nil
}

// unusedDue deletes a queue if it was empty and unused for long enough.
func unusedDue(qtx *queueTx, t layout.Timer) error {
	over, err := qtx.disuse.over(t.Due)
	if err != nil || !over {
		return err
	}
	if err := qtx.flush(); err != nil {
		return err
	}
	if _, err := deleteQueue(qtx); err != nil {
		return err
	}
	qtx.txSize += deletedTxSize
	qtx.work.deleted = append(qtx.work.deleted, qtx.name)
	return nil
}

// over reports whether the queue was empty and unused for long enough when a timer is due, and otherwise sets the next one. The commit
// depends on that.
func (d disuse) over(timer int64) (bool, error) {
	due, err := d.lookDue(d.tx)
	if err != nil || due != timer || !d.expires() {
		return false, err // the timer was set for something else
	}
	now, err := d.now()
	if err != nil {
		return false, err
	}
	after := int64(d.state.config.ExpireEmpty)
	row, err := d.snapshot.Get(usedRow(d.name))
	if err != nil {
		return false, err
	}
	if unused := max(int64(kv.DecodeInteger(row)), d.store.presence.since(d.store.inside.Clock)); unused+after > now {
		d.look(unused + after)
		return false, nil
	}
	kept, err := d.kept(d.snapshot)
	if err != nil {
		return false, err
	}
	if kept || d.store.ExpiresAfter(&d.state.config) == 0 {
		d.look(now + after)
		return false, nil
	}
	d.tx.Conflict(usedRow(d.name))
	_, err = d.kept(d.tx) // the commit depends on each row that is not there
	return true, err
}

// deletedTxSize is what a delete takes of the transaction of a sweep, with the ranges on which it depends.
const deletedTxSize = 10_000

// keepers are the spaces whose rows keep a queue, in the order of what is most likely there: of its generation, and outside of it. The
// rows of a queue that is gone may still tell apart two leases or two pops, and so they keep one that is there, too.
var (
	keepersOfGeneration = []string{layout.SpaceReady, layout.SpaceLeased, layout.SpaceDelayed, layout.SpaceKeyed}
	keepers             = []string{
		layout.SpaceMsgID, layout.SpacePopID, layout.SpaceKept, layout.SpaceSchedule, layout.SpaceSource, layout.SpaceLink,
		layout.SpaceSettings, layout.SpaceKeyFence, layout.SpaceTokensOf, layout.SpaceCostOf, layout.SpaceRequest, layout.SpaceResult,
	}
)

// kept reports whether the queue is in use, whenever it was last used.
func (d disuse) kept(r kv.Reader) (bool, error) {
	if d.state.paused {
		return true, nil
	}
	for i, space := range slices.Concat(keepersOfGeneration, keepers) {
		prefix := layout.QueueRow(space, d.name)
		if i < len(keepersOfGeneration) {
			prefix = d.prefix(space)
		}
		begin, end := tuple.Range(prefix)
		rows, err := r.Range(begin, end, kv.RangeOptions{Limit: 1})
		if err != nil || len(rows) > 0 {
			return true, err
		}
	}
	if owes, err := d.owes(r); owes || err != nil {
		return true, err
	}
	return d.takesDead(r)
}

// owes reports whether a rate of the queue remembers deliveries: another queue of this name would begin with all tokens.
func (d disuse) owes(r kv.Reader) (bool, error) {
	if !d.state.config.rates() {
		return false, nil
	}
	bs, err := d.rates.readBoth(r, d.state.config.buckets())
	if err != nil {
		return false, err
	}
	now, err := d.now()
	return bs[ofDeliveries].owes(now) || bs[ofCost].owes(now), err
}

// mostNaming bounds the queues of a tenant that are asked whether their dead letters go to a queue that takes those of all. Among more
// of them such a queue is in use.
const mostNaming = 1000

// takesDead reports whether the dead letters of another queue go to this one: that queue has named it, or this is its default
// dead-letter queue.
func (d disuse) takesDead(r kv.Reader) (bool, error) {
	if home, is := strings.CutSuffix(d.name, DeadLetterSuffix); is {
		s, err := d.store.readStateRow(r, home)
		if err != nil || s != nil && s.exists {
			return true, ignoreFormat(err)
		}
	}
	switch from := d.state.config.DeadLettersFrom; from {
	case "":
		return false, nil
	case "*":
		begin := layout.QueueRow(layout.SpaceState, sameTenant(d.name, ""))
		begin = begin[:len(begin)-1] // without the end of the name
		rows, err := r.Range(begin, tuple.PrefixEnd(begin), kv.RangeOptions{Limit: mostNaming})
		if err != nil || len(rows) == mostNaming {
			return true, err
		}
		return d.namedBy(rows)
	default:
		names := strings.Split(from, ",")
		keys, rows := make([][]byte, len(names)), make([]kv.Pair, len(names))
		for i, name := range names {
			keys[i] = layout.QueueRow(layout.SpaceState, sameTenant(d.name, name))
		}
		states, err := r.GetAll(keys)
		if err != nil {
			return true, err
		}
		for i, state := range states {
			rows[i] = kv.Pair{Key: keys[i], Value: state}
		}
		return d.namedBy(rows)
	}
}

// namedBy reports whether one of some queues, whose states were read, names this one as its dead-letter queue.
func (d disuse) namedBy(states []kv.Pair) (bool, error) {
	for _, row := range states {
		name, _, err := tuple.ConsumeString(row.Key[len(layout.Row(layout.SpaceState)):])
		if err != nil {
			return true, fmt.Errorf("damaged queue name: %w", err)
		}
		if row.Value == nil || tenantOf(name) != tenantOf(d.name) {
			continue
		}
		s, err := d.store.queueStates.parse(name, row.Value)
		if err != nil || s.exists && s.config.DeadLetter == ownName(d.name) {
			return true, ignoreFormat(err)
		}
	}
	return false, nil
}

// ignoreFormat is for questions to which a queue that only a later program serves may have any answer.
func ignoreFormat(err error) error {
	if errors.Is(err, ErrFormat) {
		return nil
	}
	return err
}

// checkExpireEmpty refuses a time in which a use could not be told from none.
func checkExpireEmpty(after Duration) error {
	if after != 0 && after < Duration(MinExpireEmpty) || after > Duration(MaxExpireEmpty) {
		return configError("expire_empty is %s: allowed are 0s, for never, and %s to %s", after, MinExpireEmpty, MaxExpireEmpty)
	}
	return nil
}

// MinExpireEmpty is the least [Config.ExpireEmpty] beside 0: the row of the last use is no older than a tenth of it, and processes agree
// on store time to about a second.
const MinExpireEmpty = time.Minute

// disuseChanged has a queue delete itself, or no more.
func disuseChanged(qtx *queueTx, before *Config) error {
	if qtx.state.config.ExpireEmpty == before.ExpireEmpty {
		return nil
	}
	return qtx.disuse.begin()
}

// ExpiresAfter is for how long a queue with a configuration is empty and unused before it deletes itself, 0 if it does not: where pushes make
// no queues, none could make it again.
func (s *Store) ExpiresAfter(c *Config) time.Duration {
	if s.refuseUnknown {
		return 0
	}
	return time.Duration(c.ExpireEmpty)
}

// NoteUse notes that somebody uses a queue in a way that none of its methods shows, for [Config.ExpireEmpty].
func NoteUse(tx kv.Tx, q Queue) error {
	_, err := q.open(tx)
	return err
}

// Use notes that somebody waits for items or results of queues. It has no effect on queues that do not delete themselves, as far as this
// process knows, and a transaction at most once in a tenth of the shortest [Config.ExpireEmpty].
func (s *Store) Use(ctx context.Context, queues ...string) error {
	unnoted := slices.DeleteFunc(slices.Clone(queues), func(name string) bool {
		known := s.queueStates.last(name)
		return known == nil || !known.exists || known.config.ExpireEmpty == 0 || s.marks.recent(name, known.config.ExpireEmpty, s.inside.Clock.Now())
	})
	if len(unnoted) == 0 {
		return nil
	}
	session := s.Session()
	defer session.Release()
	var noted map[string]int64
	err := session.Update(ctx, func(tx kv.Tx) error {
		w := newWork(s, tx)
		noted = make(map[string]int64)
		for _, name := range unnoted {
			used, err := markOf(w, name)
			if err != nil {
				return err
			}
			noted[name] = used
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("note the use of queues: %w", err)
	}
	for name, used := range noted {
		s.marks.know(name, used)
	}
	return nil
}

// markOf is disuse.mark of a queue, which need not delete itself.
func markOf(w *Work, queue string) (used int64, err error) {
	qtx, err := w.queue(queue)
	if err != nil || !qtx.disuse.expires() {
		return 0, ignoreFormat(err)
	}
	used, _, err = qtx.disuse.mark()
	return used, err
}

// useMarks are the rows of last uses that this process knows to be in the store.
type useMarks struct {
	mu     sync.Mutex
	latest map[string]int64
}

// maxUseMarks bounds them. Who uses another queue reads its row.
const maxUseMarks = 16_384

// recent reports whether the row of a queue needs no other time now.
func (m *useMarks) recent(queue string, after Duration, now int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest[queue]+tenth(after) > now
}

func (m *useMarks) know(queue string, used int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.latest == nil {
		m.latest = make(map[string]int64)
	}
	if _, there := m.latest[queue]; !there && len(m.latest) >= maxUseMarks {
		for some := range m.latest { // any of them, in no order
			delete(m.latest, some)
			break
		}
	}
	m.latest[strings.Clone(queue)] = max(m.latest[queue], used)
}

// presence is since when this process would have heard of all uses. Who waits for items notes that in the store, and cannot while
// that is away: a pause of the store, or of this process, is no disuse.
type presence struct {
	began atomic.Int64 // store time
	seen  atomic.Int64 // elapsed time of the last heartbeat of Maintain; 0 before it
}

// maxSilence is the longest time without a heartbeat in which nobody can have missed to note a use: it is shorter than nine tenths of
// the shortest time.
const maxSilence = MinExpireEmpty / 2

// since is the store time.
func (p *presence) since(clock *storetime.Clock) int64 {
	if seen := p.seen.Load(); seen != 0 && int64(clock.Elapsed())-seen > int64(maxSilence) {
		p.began.Store(clock.Now())
	}
	return p.began.Load()
}

// beat notes a heartbeat.
func (p *presence) beat(clock *storetime.Clock) {
	p.since(clock)
	p.seen.Store(max(int64(clock.Elapsed()), 1))
}
