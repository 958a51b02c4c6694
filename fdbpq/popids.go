package fdbpq

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// ErrPopIDReused: the pop id belongs to a pop with another end, band or lease.
var ErrPopIDReused = errors.New("the pop id belongs to another pop: expected the end, band and lease of the first one")

// rememberedPop is the row that keeps a pop id for the queue's dedup window, so that
// the repeated pop gets the same answer. It has the tokens of leased items. Items
// that were popped for good have rows of their own. A pop without both popped nothing,
// and never will.
type rememberedPop struct {
	due    int64
	end    End
	band   Band
	lease  time.Duration // 0: popped for good
	items  int64         // number of items that were popped for good
	leases [][]byte      // their tokens
}

func popIDRow(queue, popID string) []byte {
	return tuple.AppendString(layout.QueueRow(layout.SpacePopID, queue), popID)
}

// popItemRow is the key of a remembered pop's n-th item; its chunks follow it.
func popItemRow(queue, popID string, n int64) []byte {
	return tuple.AppendInt(tuple.AppendString(layout.QueueRow(layout.SpacePopItem, queue), popID), n)
}

func (m *rememberedPop) pack() []byte {
	b := tuple.AppendInt(nil, m.due)
	for _, field := range [...]int64{int64(m.end), m.band.Low, m.band.High, int64(m.lease), m.items} {
		b = tuple.AppendInt(b, field)
	}
	for _, token := range m.leases {
		b = tuple.AppendBytes(b, token)
	}
	return b
}

func parseRememberedPop(b []byte) (*rememberedPop, error) {
	r := tuple.Read(b)
	m := rememberedPop{due: r.Int()}
	end := r.Int()
	m.band = Band{r.Int(), r.Int()}
	m.lease, m.items = time.Duration(r.Int()), r.Int()
	if m.end = End(end); int64(m.end) != end || m.end > Max {
		return nil, fmt.Errorf("damaged pop id: end %d", end)
	}
	for r.More() {
		m.leases = append(m.leases, r.Bytes())
	}
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("damaged pop id: %w", err)
	}
	return &m, nil
}

func (m *rememberedPop) nothing() bool { return m.items == 0 && len(m.leases) == 0 }

// popIDs remembers what each pop with an id has answered.
type popIDs struct{ *queueTx }

// repeat returns the answer of the first pop with this id, nil when this is the
// first. It leaves out items that were settled since; when none is left, it returns
// *LostError.
func (ps popIDs) repeat(sel *Selection, lease time.Duration) (*Popped, error) {
	m, err := recall(&ps.queueRows, popIDRow(ps.name, sel.PopID), sel.PopID, parseRememberedPop)
	if err != nil || m == nil {
		return nil, err
	}
	now, err := ps.now()
	if err != nil {
		return nil, err
	}
	if m.end != sel.End || m.band != *sel.Band || m.lease != lease && !sel.AnyLease && !m.nothing() {
		return nil, ErrPopIDReused
	}
	longer := sel.Repeated && ps.rememberAfresh(sel.PopID, m, now)
	popped := &Popped{Leased: m.lease, Repeated: true}
	if m.nothing() {
		popped.Final = true
		return popped, ps.explainNothing(popped, m.band)
	}
	for n := range m.items {
		item, err := ps.repeatTaken(sel.PopID, n)
		if err != nil {
			return nil, err
		}
		popped.Items = append(popped.Items, item)
	}
	if longer {
		if err := ps.answers.keep(m.due, m.size(popped.Items)); err != nil {
			return nil, err
		}
	}
	for _, token := range m.leases {
		item, err := ps.repeatLeased(token, now)
		if err != nil {
			return nil, err
		}
		if item != nil {
			popped.Items = append(popped.Items, *item)
		}
	}
	if len(popped.Items) == 0 {
		return nil, &LostError{Reason: LostGone}
	}
	return popped, ps.reasons.complete(popped, m.band)
}

func (ps popIDs) repeatTaken(popID string, n int64) (Item, error) {
	key := popItemRow(ps.name, popID, n)
	row, err := ps.tx.Get(key)
	if err != nil {
		return Item{}, err
	}
	p, value, err := layout.SplitPlace(row)
	if err != nil {
		return Item{}, fmt.Errorf("damaged pop: %w", err)
	}
	f := layout.Item{Place: p}
	if f.Envelope, err = layout.ParseEnvelope(value, p); err != nil {
		return Item{}, err
	}
	if err := loadContent(ps.tx, key, &f.Envelope, layout.Place{}); err != nil {
		return Item{}, err
	}
	return itemOf(&f)
}

func (ps popIDs) repeatLeased(token []byte, now int64) (*Item, error) {
	lease, err := ParseLease(ps.name, token)
	if err != nil {
		return nil, err
	}
	if lease.generation != ps.state.generation {
		return nil, nil
	}
	l, err := ps.leases.item(lease, new(layout.Item))
	if err != nil || l == nil || l.State != layout.StateLeased || l.Fence != lease.Fence || l.Due <= now {
		return nil, err
	}
	again := *l
	again.ExtraAnswers++
	ps.change(l, &again)
	stored, err := ps.contents.stored(ps.tx, l, whole)
	if err != nil {
		return nil, err
	}
	stored.Lease = ps.leases.of(l)
	return &stored.Item, nil
}

// room returns an error when the queue may remember no more ids.
func (ps popIDs) room(id string) error {
	n, err := countsOf(ps.name, ps.snapshot, ps.state.generation)
	if err != nil {
		return err
	}
	return ps.ids.room(id, n.Remembered)
}

// remember keeps the answer of a pop. loaded are its items with their content.
func (ps popIDs) remember(sel *Selection, lease time.Duration, popped *Popped, loaded []layout.Item) error {
	now, err := ps.now()
	if err != nil {
		return err
	}
	m := rememberedPop{due: now + int64(ps.state.config.DedupWindow), end: sel.End, band: *sel.Band, lease: lease}
	for i := range popped.Items {
		if l := popped.Items[i].Lease; l != nil {
			m.leases = append(m.leases, l.Token())
			continue
		}
		f := &loaded[i]
		key := popItemRow(ps.name, sel.PopID, m.items)
		kept := f.Answered()
		if err := storeContent(ps.transaction, key, &kept, layout.Place{}, f.Headers, f.Payload); err != nil {
			return err
		}
		ps.tx.Set(key, layout.JoinPlace(f.Place, &kept))
		m.items++
	}
	m.store(&ps.queueRows, sel.PopID)
	if sel.Repeated {
		ps.tx.Set(repeatedRow(ps.name, sel.PopID), nil)
	}
	ps.tally.Remembered++
	return ps.answers.keep(m.due, m.size(popped.Items))
}

// size is what the rows of the answer take; items are those that were popped, and come first.
func (m *rememberedPop) size(items []Item) int64 {
	n := 0
	for i := range m.items {
		n += len(items[i].Headers) + len(items[i].Payload)
	}
	for _, token := range m.leases {
		n += len(token)
	}
	return int64(n)
}

// store writes the row and its timer.
func (m *rememberedPop) store(q *queueRows, popID string) {
	q.tx.Set(popIDRow(q.name, popID), m.pack())
	q.tx.Set(layout.IDTimerKey(m.due, layout.TimerPopID, q.name, popID), nil)
	q.store.alarm.expect(m.due)
}

func (m *rememberedPop) forgetAt() int64 { return m.due }

func (m *rememberedPop) forget(q *queueRows, popID string) {
	q.tx.Clear(popIDRow(q.name, popID))
	q.tx.Clear(repeatedRow(q.name, popID))
	q.tx.Clear(layout.IDTimerKey(m.due, layout.TimerPopID, q.name, popID))
	if m.items > 0 {
		begin := tuple.AppendString(layout.QueueRow(layout.SpacePopItem, q.name), popID)
		q.tx.ClearRange(tuple.Range(begin))
	}
	q.tally.Remembered--
}

func (ps popIDs) due(t layout.Timer) error {
	before := ps.tally.Remembered
	err := idDue(&ps.queueRows, popIDRow(ps.name, t.ID), t, parseRememberedPop)
	if err == nil && ps.tally.Remembered < before && !ps.there() {
		err = ps.forgetUnknown()
	}
	return err
}

// A client that hears nothing repeats its pop, and one bridge may still have the first
// attempt when another one answers the second. Without a memory of that answer, the
// first attempt might pop an item later, which nobody would ask for again. So a repeated
// pop that finds nothing is remembered like one that finds items, whether the queue
// exists or not, and when the queue is deleted and made again.

// minNothing is the least time for which a pop id is remembered that popped nothing.
// Another attempt may wait for an item for nearly two minutes.
const minNothing = 3 * time.Minute

// repeatedRow is the key of the row that a pop id has if the pop was repeated. It leads
// a delete to the ids that outlive the queue.
func repeatedRow(queue, popID string) []byte {
	return tuple.AppendString(layout.QueueRow(layout.SpaceRepeated, queue), popID)
}

// PopNothing is the pop of sel if the caller cannot give it an item, whatever the queue
// has. It returns what the pop with its id has popped before. If that is nothing, it
// never pops anything.
func (q Queue) PopNothing(tx kv.Tx, sel Selection, lease time.Duration) (Popped, error) {
	sel.Repeated = true
	if err := sel.check(); err != nil {
		return Popped{}, err
	}
	qtx, err := q.open(tx)
	if err != nil {
		return Popped{}, err
	}
	if !qtx.there() {
		return qtx.popIDs.popUnknown(&sel, lease)
	}
	return qtx.popIDs.repeatOrNothing(&sel, lease, ReasonEmpty)
}

// popUnknown is the pop of a queue that does not exist.
func (ps popIDs) popUnknown(sel *Selection, lease time.Duration) (Popped, error) {
	if sel.PopID == "" || !sel.Repeated {
		return Popped{Reason: ReasonUnknown}, nil
	}
	return ps.repeatOrNothing(sel, lease, ReasonUnknown)
}

// repeatOrNothing returns what the pop with this id has popped before, and otherwise pops
// nothing.
func (ps popIDs) repeatOrNothing(sel *Selection, lease time.Duration, reason Reason) (Popped, error) {
	again, err := ps.repeat(sel, lease)
	if err != nil || again != nil {
		return deref(again), cmp.Or(err, ps.done())
	}
	return ps.popNothing(sel, lease, reason)
}

// popNothing is the result of a pop that gets no item, for a reason other than that
// none is there.
func (ps popIDs) popNothing(sel *Selection, lease time.Duration, reason Reason) (Popped, error) {
	popped := Popped{Reason: reason, Final: sel.PopID != "" && sel.Repeated}
	if popped.Final {
		if err := ps.room(sel.PopID); err != nil {
			return Popped{}, err
		}
		if err := ps.rememberNothing(sel, lease); err != nil {
			return Popped{}, err
		}
	}
	return popped, ps.done()
}

// explainNothing sets the reason of a pop that is remembered to have popped nothing.
func (ps popIDs) explainNothing(popped *Popped, band Band) error {
	switch {
	case !ps.there():
		popped.Reason = ReasonUnknown
	case ps.state.paused:
		popped.Reason = ReasonPaused
	default:
		return ps.reasons.complete(popped, band)
	}
	return nil
}

// rememberNothing keeps that a repeated pop has popped nothing.
func (ps popIDs) rememberNothing(sel *Selection, lease time.Duration) error {
	now, err := ps.now()
	if err != nil {
		return err
	}
	m := rememberedPop{end: sel.End, band: *sel.Band, lease: lease}
	m.due = now + int64(m.window(&ps.queueRows))
	m.store(&ps.queueRows, sel.PopID)
	ps.tx.Set(repeatedRow(ps.name, sel.PopID), nil)
	ps.tally.Remembered++
	return nil
}

// window is for how long a pop id is remembered.
func (m *rememberedPop) window(q *queueRows) time.Duration {
	window := time.Duration(q.state.config.DedupWindow)
	if m.nothing() {
		return max(window, minNothing)
	}
	return window
}

// rememberAfresh has the window of a pop id begin again with a repetition, and reports whether it ends later.
func (ps popIDs) rememberAfresh(popID string, m *rememberedPop, now int64) bool {
	ps.tx.Set(repeatedRow(ps.name, popID), nil)
	due := now + int64(m.window(&ps.queueRows))
	if due <= m.due {
		return false
	}
	ps.tx.Clear(layout.IDTimerKey(m.due, layout.TimerPopID, ps.name, popID))
	m.due = due
	m.store(&ps.queueRows, popID)
	return true
}

// maxOutliving bounds how many pop ids outlive their queue, so that a delete stays one
// transaction.
const maxOutliving = 1000

// outliving are the rows of repeated pops that outlive their queue: they pop nothing of a later
// one with this name.
type outliving []kv.Pair

// outlivingPops reads them before a queue is deleted with all of its ids. The timers of the
// others find nothing when they fall due.
func outlivingPops(tx kv.Tx, queue string) (outliving, error) {
	begin, end := tuple.Range(layout.QueueRow(layout.SpaceRepeated, queue))
	repeated, err := tx.Range(begin, end, kv.RangeOptions{Limit: maxOutliving})
	if err != nil {
		return nil, err
	}
	keys := make([][]byte, len(repeated))
	for i, pair := range repeated {
		id, _, err := tuple.ConsumeString(pair.Key[len(begin)-1:])
		if err != nil {
			return nil, fmt.Errorf("damaged repetition: %w", err)
		}
		keys[i] = popIDRow(queue, id)
	}
	rows, err := tx.GetAll(keys)
	if err != nil {
		return nil, err
	}
	var pops outliving
	for i, row := range rows {
		if row == nil {
			continue // damage, which a check reports
		}
		m, err := parseRememberedPop(row)
		if err != nil {
			return nil, err
		}
		m.items, m.leases = 0, nil
		pops = append(pops, kv.Pair{Key: keys[i], Value: m.pack()}, kv.Pair{Key: repeated[i].Key})
	}
	return pops, nil
}

// keep writes them again.
func (pops outliving) keep(tx kv.Tx, queue string) {
	for _, row := range pops {
		tx.Set(row.Key, row.Value)
	}
	if len(pops) > 0 {
		tx.Add(layout.CounterKey(queue, 0, layout.CounterRemembered), int64(len(pops)/2))
	}
}

// forgetUnknown clears the counter of a queue that does not exist, when its last id was
// forgotten.
func (ps popIDs) forgetUnknown() error {
	begin, end := tuple.Range(layout.QueueRow(layout.SpaceRepeated, ps.name))
	left, err := ps.tx.Range(begin, end, kv.RangeOptions{Limit: 1})
	if err != nil || len(left) > 0 {
		return err
	}
	ps.tx.Clear(layout.CounterKey(ps.name, 0, layout.CounterRemembered))
	ps.tally.Remembered = 0
	return nil
}

// A pop with an id keeps its answer for the queue's dedup window: tokens of leases, or the content of items that have left
// the queue. What answers take counts as long as they are kept, in a row for each span of time in which they are forgotten.
// So it ends by itself: nothing has to know what an answer took when it is forgotten. Rows of the past stay until the next
// long answer.

// answers counts the bytes of answers that a queue keeps.
type answers struct{ *queueRows }

const (
	// spansOfWindow is how many spans of time a window has at least, and half of how many it has at most.
	spansOfWindow = 8

	// mostSpans is more rows than a queue has, whose window may have changed.
	mostSpans = 1000
)

// keep counts an answer that is forgotten at a time. What an id counts pays for a short one.
func (a answers) keep(due, bytes int64) error {
	if bytes -= RememberedBytes; bytes <= 0 {
		return nil
	}
	row := a.row(due)
	there, err := a.snapshot.Get(row)
	if err != nil {
		return err
	}
	if there == nil {
		now, err := a.now()
		if err != nil {
			return err
		}
		begin, _ := layout.AllRows(layout.SpaceAnswers, a.name)
		a.tx.ClearRange(begin, answersRow(a.name, now))
	}
	a.tx.Add(row, bytes)
	return nil
}

// row is that of the span in which an answer is forgotten, by its end.
func (a answers) row(due int64) []byte {
	span := max(int64(time.Second), int64(a.state.config.DedupWindow)/spansOfWindow)
	span = 1 << (bits.Len64(uint64(span)) - 1)
	return answersRow(a.name, (due/span+1)*span)
}

func answersRow(queue string, end int64) []byte {
	return tuple.AppendInt(layout.QueueRow(layout.SpaceAnswers, queue), end)
}

// kept is what the answers of the queue take.
func (a answers) kept() (bytes int64, err error) {
	begin, end := layout.AllRows(layout.SpaceAnswers, a.name)
	rows, err := a.snapshot.Range(begin, end, kv.RangeOptions{Limit: mostSpans})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	now, err := a.now()
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		until, err := answersUntil(row.Key[len(begin):])
		if err != nil {
			return 0, err
		}
		if until > now {
			bytes += int64(kv.DecodeInteger(row.Value))
		}
	}
	return bytes, nil
}

func answersUntil(key []byte) (end int64, err error) {
	end, _, err = tuple.ConsumeInt(key)
	return end, err
}

// foundAnswers checks a count of answers.
func foundAnswers(_ *walk, r *foundRow) error {
	_, err := answersUntil(r.rest)
	return err
}
