package fdbpq_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// model is a store as the protocol and the package's documentation describe
// it, in the plainest form: a slice of items a queue, and every question
// answered by looking at all of them. It knows nothing of rows.
type model struct {
	queues  map[string]*modelQueue
	sweeper string // process that has due work to itself
	until   int64  // store time at which that ends
	born    int    // items so far
	stale   []due  // timers of purged items, which stay until they are collected

	// Where operations overlap: the last place in each queue before they began.
	// Places of pushes are then the store's choice, beyond that.
	floor map[string]int64
}

type modelQueue struct {
	name       string
	exists     bool
	paused     bool
	generation int
	config     fdbpq.Config
	high       int64 // last place in push order
	items      []modelItem
	pushes     map[string]modelPush
	pops       map[string]modelPop
	garbage    int   // generations left behind
	fences     int64 // highest that an import was promised to exceed
	promises   bool  // the import under way was promised one
}

type modelItem struct {
	number     int    // tells the model's items apart
	id         string // "" when the store has not shown it yet
	priority   int64
	seq        int64
	tie        string // orders concurrent pushes
	payload    string
	headers    string
	pushed     int64 // by a wall clock
	state      fdbpq.State
	due        int64
	target     int64 // priority to come back to from a lease
	expires    int64
	deliveries int64
	fence      int64
	floor      int64 // the next fence is no lower
	answers    int   // with this lease, beyond the first
	dead       fdbpq.DeadLetter
}

type modelPush struct {
	due           int64
	id            string
	seq, priority int64
}

type modelPop struct {
	due        int64
	end        fdbpq.End
	band       fdbpq.Band
	lease      time.Duration
	generation int
	taken      []itemView
	leases     []modelLease
}

type modelLease struct {
	number int
	fence  int64
}

// moment is when and where an operation happens.
type moment struct {
	process string
	now     int64 // store time
	wall    time.Time
}

// display is the time of day that a store time stands for.
func (m moment) display(due int64) int64 { return m.wall.UnixNano() + due - m.now }

// outcome is what an operation answers, in a form that can be compared.
type outcome struct {
	Err      string // what kind of error; "" for none
	Items    []itemView
	Reason   fdbpq.Reason
	Ready    int64
	More     bool
	Events   []string
	Pushed   []pushedView
	Imported []importedView
	Counts   fdbpq.Counts
	Config   fdbpq.Config
	OK       bool
	N        int64
}

type itemView struct {
	ID         string
	Seq        int64
	Priority   int64
	Payload    string
	Headers    string
	Size       int64
	Pushed     int64
	Deliveries int64
	Dead       fdbpq.DeadLetter
	Fence      int64
	Expires    int64
	State      fdbpq.State
	Due        int64
	Until      int64 // end of the TTL

	number       int    // the model's
	generation   int    // of the model's queue when it gave this lease
	queue, token string // the store's, of a lease
}

type pushedView struct {
	ID        string
	Seq       int64
	Priority  int64
	Duplicate bool
	Evicted   bool
	Err       string

	queue string
}

func newModel() *model { return &model{queues: make(map[string]*modelQueue)} }

func (m *model) clone() *model {
	c := *m
	c.stale = slices.Clone(m.stale)
	c.queues = make(map[string]*modelQueue, len(m.queues))
	for name, q := range m.queues {
		copied := *q
		copied.items = slices.Clone(q.items)
		copied.pushes = maps.Clone(q.pushes)
		copied.pops = maps.Clone(q.pops)
		c.queues[name] = &copied
	}
	return &c
}

// equal tells whether two models are in the same state, however they number
// their items.
func (m *model) equal(other *model) bool {
	return reflect.DeepEqual(m.plain(), other.plain())
}

// plain is the model without what nobody can ever see.
func (m *model) plain() *model {
	c := m.clone()
	c.born, c.floor = 0, nil
	names := make(map[int]string) // of items
	for _, q := range c.queues {
		for _, item := range q.items {
			names[item.number] = q.name + "/" + item.id
		}
	}
	number := func(n int) int {
		return slices.Index(slices.Sorted(maps.Values(names)), names[n])
	}
	for _, q := range c.queues {
		for i := range q.items {
			q.items[i].number = number(q.items[i].number)
		}
		slices.SortFunc(q.items, func(a, b modelItem) int { return compareItems(&a, &b) })
		for id, pop := range q.pops {
			pop.taken = slices.Clone(pop.taken)
			for i := range pop.taken {
				pop.taken[i].number = 0
			}
			pop.leases = slices.Clone(pop.leases)
			for i := range pop.leases {
				pop.leases[i].number = number(pop.leases[i].number)
			}
			q.pops[id] = pop
		}
	}
	for i := range c.stale {
		c.stale[i].item = modelItem{}
	}
	return c
}

// learn takes from an answer what only the store knows: ids of dead items, and
// tokens.
func (m *model) learn(want *outcome, got outcome) []heldLease {
	var leases []heldLease
	for i := range min(len(want.Items), len(got.Items)) {
		ours, theirs := &want.Items[i], got.Items[i]
		if ours.ID == "" && theirs.ID != "" && !m.knows(theirs.ID) {
			ours.ID = theirs.ID
			for _, q := range m.queues {
				if item := q.byNumber(ours.number); item != nil {
					m.found(q, item, theirs)
					ours.Seq = item.seq
				}
			}
			if q := m.queues[theirs.queue]; q != nil && m.floor != nil { // it is gone again
				var gone modelItem
				m.found(q, &gone, theirs)
				ours.Seq = max(ours.Seq, gone.seq)
			}
		}
		if theirs.token != "" {
			leases = append(leases, heldLease{queue: theirs.queue, token: theirs.token, id: theirs.ID, fence: theirs.Fence, generation: ours.generation})
		}
	}
	return leases
}

// knows tells whether an item has this id.
func (m *model) knows(id string) bool {
	for _, q := range m.queues {
		if q.byID(id) != nil {
			return true
		}
	}
	return false
}

// queue returns an existing queue, or nil.
func (m *model) queue(name string) *modelQueue {
	if q := m.queues[name]; q != nil && q.exists {
		return q
	}
	return nil
}

func (m *model) create(name string) *modelQueue {
	q := m.queues[name]
	if q == nil {
		q = &modelQueue{name: name, pushes: make(map[string]modelPush), pops: make(map[string]modelPop)}
		m.queues[name] = q
	}
	if !q.exists {
		q.exists = true
		q.config = fdbpq.Config{
			MaxDeliveries: 16,
			DedupWindow:   fdbpq.Duration(2 * time.Minute),
			DedupLimit:    1_000_000,
			Ties:          fdbpq.TiesNewest,
			Overflow:      fdbpq.OverflowRefuse,
		}
	}
	return q
}

// compareItems is the order of a queue.
func compareItems(a, b *modelItem) int {
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.seq, b.seq), strings.Compare(a.tie, b.tie))
}

// in returns the items in a state, in the order of the queue. The pointers
// hold until items are added or removed.
func (q *modelQueue) in(state fdbpq.State) []*modelItem {
	var found []*modelItem
	for i := range q.items {
		if q.items[i].state == state {
			found = append(found, &q.items[i])
		}
	}
	slices.SortFunc(found, compareItems)
	return found
}

func (q *modelQueue) byNumber(number int) *modelItem {
	for i := range q.items {
		if q.items[i].number == number {
			return &q.items[i]
		}
	}
	return nil
}

func (q *modelQueue) byID(id string) *modelItem {
	for i := range q.items {
		if q.items[i].id == id {
			return &q.items[i]
		}
	}
	return nil
}

func (q *modelQueue) remove(number int) {
	q.items = slices.DeleteFunc(q.items, func(item modelItem) bool { return item.number == number })
}

func (q *modelQueue) counts() fdbpq.Counts {
	n := fdbpq.Counts{Remembered: int64(len(q.pushes) + len(q.pops))}
	for i := range q.items {
		item := &q.items[i]
		switch item.state {
		case fdbpq.StateReady:
			n.Ready++
		case fdbpq.StateDelayed:
			n.Delayed++
		case fdbpq.StateLeased:
			n.Leased++
		}
		if item.expires != 0 && item.state != fdbpq.StateLeased {
			n.Expiring++
		}
		n.Bytes += item.size()
	}
	return n
}

func (i *modelItem) size() int64 { return int64(len(i.payload) + len(i.headers)) }

func (i *modelItem) expired(now int64) bool { return i.expires != 0 && i.expires <= now }

func (i *modelItem) view() itemView {
	return itemView{
		ID: i.id, Seq: i.seq, Priority: i.priority, Payload: digest(i.payload), Headers: digest(i.headers), Size: i.size(),
		Pushed: i.pushed, Deliveries: i.deliveries, Dead: i.dead, number: i.number,
	}
}

func (i *modelItem) held() itemView {
	v := i.view()
	v.State, v.Fence, v.Until = i.state, i.fence, i.expires
	if i.state != fdbpq.StateReady {
		v.Due = i.due
	}
	return v
}

func (i *modelItem) leased(at moment, generation int) itemView {
	v := i.view()
	v.generation = generation
	v.Fence, v.Expires = i.fence, at.display(i.due)
	return v
}

// pushItem is one item of a push.
type pushItem struct {
	payload, headers string
	priority         int64
	hasPriority      bool
	delay            time.Duration
	notBefore        time.Duration // by the pusher's clock, from now; 0: none
	ttl              time.Duration
	msgID            string
}

// push adds items. Ids, and the place among concurrent pushes, are the store's
// choice: they come from what it answered.
func (m *model) push(queue string, at moment, items []pushItem, got outcome) outcome {
	existed := m.queue(queue) != nil
	q := m.create(queue)
	var out outcome
	var pushed []int // numbers, for those that were
	for n, item := range items {
		var answer pushedView
		if n < len(got.Pushed) {
			answer = got.Pushed[n]
		}
		view, number := m.pushOne(q, at, item, answer)
		out.Pushed = append(out.Pushed, view)
		pushed = append(pushed, number)
		q.evict(&out, pushed)
	}
	q.exists = existed || slices.ContainsFunc(pushed, func(number int) bool { return number > 0 })
	return out
}

// evict keeps the queue within its length, as far as eight items will do. Only
// those that stand ready can go.
func (q *modelQueue) evict(out *outcome, pushed []int) {
	limit := q.config.MaxLength
	if limit == 0 || q.config.Overflow != fdbpq.OverflowEvict {
		return
	}
	for n := 0; n < 8 && int64(len(q.items)) > limit; n++ {
		ready := q.in(fdbpq.StateReady)
		if len(ready) == 0 {
			return
		}
		victim := *ready[len(ready)-1]
		q.remove(victim.number)
		if n := slices.Index(pushed, victim.number); n >= 0 {
			out.Pushed[n].Evicted = true
		}
		out.Events = append(out.Events, event(fdbpq.EventEvicted, q, &victim, 0, "", ""))
	}
}

func (m *model) pushOne(q *modelQueue, at moment, item pushItem, answer pushedView) (pushedView, int) {
	priority := item.priority
	if !item.hasPriority {
		priority = q.config.Priority
	}
	if item.msgID != "" {
		first, known := q.pushes[item.msgID]
		if known && first.due > at.now {
			return pushedView{ID: first.id, Seq: first.seq, Priority: first.priority, Duplicate: true}, -1
		}
		m.forgetTimer(due{at: first.due, kind: "zpush", queue: q.name, id: item.msgID})
		delete(q.pushes, item.msgID)
	}
	switch {
	case item.delay > fdbpq.MaxDelay || item.notBefore > fdbpq.MaxDelay || item.ttl > fdbpq.MaxDelay:
		return pushedView{Err: "time"}, -1
	case q.config.MaxLength > 0 && q.config.Overflow == fdbpq.OverflowRefuse && int64(len(q.items)) >= q.config.MaxLength:
		return pushedView{Err: "full"}, -1
	case item.msgID != "" && q.counts().Remembered >= q.config.DedupLimit:
		return pushedView{Err: "remembered"}, -1
	case len(item.payload)+len(item.headers) > fdbpq.MaxContent:
		return pushedView{Err: "content"}, -1
	}
	ttl := item.ttl
	if ttl == 0 {
		ttl = time.Duration(q.config.TTL)
	}
	delay := max(item.delay, item.notBefore)
	added := modelItem{
		id: answer.ID, tie: placeOf(answer.ID).tie, seq: m.place(q, answer.Seq), priority: priority,
		payload: item.payload, headers: item.headers, pushed: at.wall.UnixNano(), state: fdbpq.StateReady,
	}
	if ttl > 0 {
		added.expires = at.now + int64(ttl)
	}
	if delay > 0 {
		added.state, added.due = fdbpq.StateDelayed, at.now+int64(delay)
	}
	number := m.add(q, added)
	view := pushedView{ID: added.id, Seq: added.seq, Priority: priority}
	if item.msgID != "" {
		due := at.now + int64(q.config.DedupWindow)
		q.pushes[item.msgID] = modelPush{due: due, id: added.id, seq: added.seq, priority: priority}
	}
	return view, number
}

// place is where the next push stands: behind all that came before it.
func (m *model) place(q *modelQueue, answered int64) int64 {
	switch {
	case m.floor == nil:
		q.high++
		return q.high
	case answered > m.floor[q.name]:
		q.high = max(q.high, answered)
		return answered
	}
	return q.high + 1 // until the store shows it
}

// found takes the id and the place of a dead item from what the store shows.
func (m *model) found(q *modelQueue, item *modelItem, seen itemView) {
	item.id, item.tie = seen.ID, placeOf(seen.ID).tie
	if m.floor != nil && seen.Seq > m.floor[q.name] {
		item.seq = seen.Seq
		q.high = max(q.high, seen.Seq)
	}
}

func (m *model) add(q *modelQueue, item modelItem) int {
	m.born++
	item.number = m.born
	q.items = append(q.items, item)
	return item.number
}

// selection is what takes and peeks ask for.
type selection struct {
	end      fdbpq.End
	band     fdbpq.Band
	limit    int
	maxBytes int
	popID    string
}

var everyPriority = fdbpq.Band{Low: math.MinInt64, High: math.MaxInt64}

// order returns the ready items of a band as an end gives them out.
func (q *modelQueue) order(sel selection) []*modelItem {
	all := slices.DeleteFunc(q.in(fdbpq.StateReady), func(item *modelItem) bool {
		return item.priority < sel.band.Low || item.priority > sel.band.High
	})
	if sel.end == fdbpq.Min {
		return all
	}
	slices.Reverse(all)
	if q.config.Ties == fdbpq.TiesOldest {
		slices.SortStableFunc(all, func(a, b *modelItem) int {
			return cmp.Or(cmp.Compare(b.priority, a.priority), compareItems(a, b))
		})
	}
	return all
}

// choose returns which items a selection hits, and which that are past their
// TTL stand before the last of them.
func (q *modelQueue) choose(sel selection, now int64) (hit, passed []modelItem, more bool) {
	size := int64(0)
	for _, item := range q.order(sel) {
		switch {
		case len(hit) == sel.limit:
			return hit, passed, false
		case item.expired(now):
			if len(passed) == 256 {
				return hit, passed, len(hit) == 0
			}
			passed = append(passed, *item)
		case len(hit) > 0 && size+item.size() > int64(sel.maxBytes):
			return hit, passed, false
		default:
			size += item.size()
			hit = append(hit, *item)
		}
	}
	return hit, passed, false
}

// complete says what the counters tell a take or a peek.
func (q *modelQueue) complete(out *outcome) {
	n := q.counts()
	switch {
	case len(out.Items) > 0:
		out.Ready = n.Ready
	case n.Leased > 0:
		out.Reason = fdbpq.ReasonLeased
	case n.Delayed > 0:
		out.Reason = fdbpq.ReasonDelayed
	default:
		out.Reason = fdbpq.ReasonEmpty
	}
}

func (m *model) peek(queue string, at moment, sel selection) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{Reason: fdbpq.ReasonUnknown}
	}
	if q.paused {
		return outcome{Reason: fdbpq.ReasonPaused}
	}
	var out outcome
	for _, item := range q.order(sel) {
		if len(out.Items) == sel.limit {
			break
		}
		if item.expired(at.now) {
			continue
		}
		size := item.size()
		for _, v := range out.Items {
			size += v.Size
		}
		if len(out.Items) > 0 && size > int64(sel.maxBytes) {
			break
		}
		out.Items = append(out.Items, item.view())
	}
	q.complete(&out)
	return out
}

// take is Pop, and Lease when lease is not 0.
func (m *model) take(queue string, at moment, sel selection, lease time.Duration) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{Reason: fdbpq.ReasonUnknown}
	}
	if before, known := q.pops[sel.popID]; known {
		if before.due > at.now {
			return m.again(q, at, sel, lease, before)
		}
		m.forgetTimer(due{at: before.due, kind: "pop", queue: q.name, id: sel.popID})
		delete(q.pops, sel.popID)
	}
	if q.paused {
		return outcome{Reason: fdbpq.ReasonPaused}
	}
	if sel.popID != "" && q.counts().Remembered >= q.config.DedupLimit {
		return outcome{Err: "remembered"}
	}
	hit, passed, more := q.choose(sel, at.now)
	out := outcome{More: more}
	for i := range passed {
		q.remove(passed[i].number)
		m.expire(q, at, passed[i], &out)
	}
	pop := modelPop{
		due: at.now + int64(q.config.DedupWindow), end: sel.end, band: sel.band, lease: lease, generation: q.generation,
	}
	for _, item := range hit {
		if lease == 0 {
			q.remove(item.number)
			out.Items = append(out.Items, item.view())
			continue
		}
		held := q.byNumber(item.number)
		held.state, held.due, held.target = fdbpq.StateLeased, at.now+int64(lease), held.priority
		held.deliveries++
		held.fence, held.floor, held.answers = max(held.fence+1, held.floor), 0, 0
		out.Items = append(out.Items, held.leased(at, q.generation))
		pop.leases = append(pop.leases, modelLease{held.number, held.fence})
	}
	if lease == 0 {
		pop.taken = slices.Clone(out.Items)
	}
	if sel.popID != "" && len(out.Items) > 0 {
		q.pops[sel.popID] = pop
	}
	q.complete(&out)
	return out
}

// again answers a pop that was answered before.
func (m *model) again(q *modelQueue, at moment, sel selection, lease time.Duration, before modelPop) outcome {
	if before.end != sel.end || before.band != sel.band || before.lease != lease {
		return outcome{Err: "replay"}
	}
	out := outcome{Items: slices.Clone(before.taken)}
	for _, l := range before.leases {
		item := q.byNumber(l.number)
		if item != nil && item.state == fdbpq.StateLeased && item.fence == l.fence && item.due > at.now {
			item.answers++
			out.Items = append(out.Items, item.leased(at, q.generation))
		}
	}
	if len(out.Items) == 0 {
		return outcome{Err: "lost: gone"}
	}
	q.complete(&out)
	return out
}

// settlement is what can be done with a lease.
type settlement string

const (
	settleAck       settlement = "ack"
	settleNack      settlement = "nack"
	settleReturn    settlement = "return"
	settleExtend    settlement = "extend"
	settleTerminate settlement = "terminate"
)

// heldLease is a lease as its holder knows it.
type heldLease struct {
	queue      string
	token      string
	id         string // of the item
	fence      int64
	generation int
}

func (m *model) settle(l heldLease, at moment, what settlement, d time.Duration, reason string) outcome {
	q := m.queue(l.queue)
	if q == nil || q.generation != l.generation {
		return outcome{Err: "lost: gone"}
	}
	item := q.byID(l.id)
	switch {
	case item == nil:
		return outcome{Err: "lost: gone"}
	case item.fence != l.fence:
		return outcome{Err: "lost: taken"}
	}
	late := what == settleAck || what == settleTerminate
	if !late && (item.state != fdbpq.StateLeased || item.due <= at.now) {
		return outcome{Err: "lost: expired"}
	}
	var out outcome
	switch what {
	case settleAck:
		q.remove(item.number)
	case settleTerminate:
		gone := *item
		q.remove(gone.number)
		m.bury(q, at, gone, cmp.Or(reason, "terminated"), &out)
	case settleExtend:
		item.due = at.now + int64(d)
		out.Items = []itemView{{ID: item.id, Fence: item.fence, Expires: at.display(item.due), number: item.number, generation: q.generation}}
	case settleReturn:
		if item.answers > 0 {
			item.answers-- // another answer may have arrived
			break
		}
		if item.fence-item.deliveries >= fdbpq.MaxReturns {
			m.release(q, at, item.number, 0, &out)
			break
		}
		item.deliveries--
		m.reinstate(q, at, item.number, 0, &out)
	case settleNack:
		m.release(q, at, item.number, d, &out)
	}
	return out
}

// release ends a lease on an item that was delivered and not settled.
func (m *model) release(q *modelQueue, at moment, number int, delay time.Duration, out *outcome) {
	item := q.byNumber(number)
	if limit := q.config.MaxDeliveries; limit > 0 && item.deliveries >= limit && item.dead == (fdbpq.DeadLetter{}) {
		gone := *item
		q.remove(number)
		m.bury(q, at, gone, "max_deliveries", out)
		return
	}
	m.reinstate(q, at, number, delay, out)
}

// reinstate puts a leased item back where it was, or was moved to.
func (m *model) reinstate(q *modelQueue, at moment, number int, delay time.Duration, out *outcome) {
	item := q.byNumber(number)
	item.priority, item.answers = item.target, 0
	switch {
	case item.expired(at.now):
		gone := *item
		q.remove(number)
		m.expire(q, at, gone, out)
	case delay > 0:
		item.state, item.due = fdbpq.StateDelayed, at.now+int64(delay)
	default:
		item.state = fdbpq.StateReady
	}
}

// expire ends an item past its TTL that is in the queue no more.
func (m *model) expire(q *modelQueue, at moment, item modelItem, out *outcome) {
	if q.config.DeadLetterExpired && item.dead == (fdbpq.DeadLetter{}) {
		m.bury(q, at, item, "expired", out)
		return
	}
	out.Events = append(out.Events, event(fdbpq.EventExpired, q, &item, 0, "", ""))
}

// bury puts an item that is in the queue no more into the dead-letter queue.
func (m *model) bury(q *modelQueue, at moment, item modelItem, reason string, out *outcome) {
	if item.state == fdbpq.StateLeased {
		item.priority = item.target
	}
	if item.dead != (fdbpq.DeadLetter{}) {
		out.Events = append(out.Events, event(fdbpq.EventDead, q, &item, item.deliveries, reason, ""))
		return
	}
	name := q.name + "-dead"
	if chosen := q.config.DeadLetter; chosen != "" && m.takesDead(chosen, q.name) {
		name = chosen
	}
	out.Events = append(out.Events, event(fdbpq.EventDead, q, &item, item.deliveries, reason, name))
	grave := m.create(name)
	buried := modelItem{
		priority: item.priority, seq: m.place(grave, 0), payload: item.payload, headers: item.headers, pushed: item.pushed,
		state: fdbpq.StateReady, dead: fdbpq.DeadLetter{Reason: reason, Origin: q.name, OriginID: item.id},
	}
	if ttl := grave.config.TTL; ttl > 0 {
		buried.expires = at.now + int64(ttl)
	}
	m.add(grave, buried)
}

func event(kind fdbpq.EventType, q *modelQueue, item *modelItem, deliveries int64, reason, dead string) string {
	return showEvent(string(kind), q.name, item.id, item.priority, deliveries, reason, dead)
}

func showEvent(kind, queue, id string, priority, deliveries int64, reason, dead string) string {
	return fmt.Sprintf("%s %s/%s priority %d, deliveries %d, reason %q to %q", kind, queue, id, priority, deliveries, reason, dead)
}

func (m *model) get(queue, id string) outcome {
	if q := m.queue(queue); q != nil {
		if item := q.byID(id); item != nil {
			return outcome{OK: true, Items: []itemView{item.held()}}
		}
	}
	return outcome{}
}

func (m *model) removeID(queue, id string) outcome {
	if q := m.queue(queue); q != nil {
		if item := q.byID(id); item != nil {
			q.remove(item.number)
			return outcome{OK: true}
		}
	}
	return outcome{}
}

func (m *model) move(queue, id string, priority int64) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{}
	}
	item := q.byID(id)
	if item == nil {
		return outcome{}
	}
	item.target = priority
	if item.state != fdbpq.StateLeased {
		item.priority = priority
	}
	return outcome{OK: true}
}

// listing is what List is asked for. After an item that is gone, the page
// starts where it stood at first.
type listing struct {
	state fdbpq.State
	after *knownID
	limit int
	plain bool // without bodies
}

// knownID is an id that a push or a take has answered.
type knownID struct {
	queue, id string
}

func (m *model) list(queue string, l listing) outcome {
	if l.limit < 1 || l.limit > 1000 {
		return outcome{Err: "other"}
	}
	q := m.queue(queue)
	if q == nil {
		return outcome{Err: "no queue"}
	}
	items := q.in(l.state)
	if l.after != nil {
		home := placeOf(l.after.id)
		after := &home
		if item := q.byID(l.after.id); item != nil {
			after = item
		}
		items = slices.DeleteFunc(items, func(item *modelItem) bool { return compareItems(item, after) <= 0 })
	}
	out := outcome{More: len(items) > l.limit}
	for _, item := range items[:min(len(items), l.limit)] {
		v := item.held()
		if l.plain {
			v.Payload = digest("")
		}
		out.Items = append(out.Items, v)
	}
	return out
}

func (m *model) inspect(queue string, at moment) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{}
	}
	out := outcome{OK: true, Counts: q.counts(), Config: q.config}
	if q.paused {
		out.Reason = fdbpq.ReasonPaused
	}
	for _, item := range q.order(selection{band: everyPriority}) {
		if !item.expired(at.now) {
			v := item.view()
			v.Payload, v.Headers = "", ""
			out.Items = []itemView{v}
			break
		}
	}
	return out
}

func (m *model) names() []string {
	var names []string
	for name, q := range m.queues {
		if q.exists {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// takesDead tells whether a queue takes the dead items of another one: because it
// has its name, or because its own configuration says so.
func (m *model) takesDead(name, of string) bool {
	if name == of+"-dead" {
		return true
	}
	q := m.queue(name)
	return q != nil && (q.config.DeadLettersFrom == "*" || strings.Contains(","+q.config.DeadLettersFrom+",", ","+of+","))
}

// configure applies a change that is known to be good, or is known not to be.
func (m *model) configure(queue string, change func(*fdbpq.Config), good bool) outcome {
	if !good {
		return outcome{Err: "config"}
	}
	q := m.create(queue)
	before := q.config.DeadLetter
	change(&q.config)
	if name := q.config.DeadLetter; name == queue || name != "" && name != before && !m.takesDead(name, queue) {
		return outcome{Err: "config"}
	}
	return outcome{Config: q.config}
}

func (m *model) pause(queue string, paused bool) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{Err: "no queue"}
	}
	q.paused = paused
	return outcome{}
}

// purge is Purge, and Delete when the queue goes with its items.
func (m *model) purge(queue string, queueToo bool) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{Err: "no queue"}
	}
	n := len(q.items)
	for _, d := range q.timers() {
		if d.id == "" || queueToo {
			m.forgetTimer(d)
			d.kind = "stale " + d.kind
			m.stale = append(m.stale, d)
		}
	}
	q.items = nil
	q.generation++
	q.garbage++
	q.fences = 0
	if queueToo {
		q.exists, q.paused = false, false
		clear(q.pushes)
		clear(q.pops)
	}
	return outcome{N: int64(n)}
}

// forgetTimer drops the timer of an id that was forgotten in a deletion, when one
// of the same id is about to go: they are one row.
func (m *model) forgetTimer(d due) {
	d.kind = "stale " + d.kind
	m.stale = slices.DeleteFunc(m.stale, func(s due) bool { return s == d })
}

// due is work that a sweep does. Its fields are in the order in which what
// falls due together is done.
type due struct {
	at    int64
	kind  string
	queue string
	item  modelItem // of the kinds that are about items
	id    string    // of the others
}

func (q *modelQueue) timers() []due {
	var all []due
	for _, item := range q.items {
		switch item.state {
		case fdbpq.StateLeased:
			all = append(all, due{at: item.due, kind: "lease", queue: q.name, item: item})
			continue // it cannot outlive its TTL meanwhile
		case fdbpq.StateDelayed:
			all = append(all, due{at: item.due, kind: "delay", queue: q.name, item: item})
		}
		if item.expires != 0 {
			all = append(all, due{at: item.expires, kind: "ttl", queue: q.name, item: item})
		}
	}
	for id, p := range q.pushes {
		all = append(all, due{at: p.due, kind: "zpush", queue: q.name, id: id})
	}
	for id, p := range q.pops {
		all = append(all, due{at: p.due, kind: "pop", queue: q.name, id: id})
	}
	return all
}

func (m *model) timers() []due {
	all := slices.Clone(m.stale)
	for _, q := range m.queues {
		all = append(all, q.timers()...)
	}
	slices.SortFunc(all, func(a, b due) int {
		return cmp.Or(
			cmp.Compare(a.at, b.at), strings.Compare(a.kind, b.kind), strings.Compare(a.queue, b.queue),
			compareItems(&a.item, &b.item), strings.Compare(a.id, b.id),
		)
	})
	return all
}

// claim says whether another process has due work to itself, and otherwise
// gives it to this one.
func (m *model) claim(at moment) (busy bool) {
	if m.sweeper != at.process && m.until > at.now {
		return true
	}
	m.sweeper, m.until = at.process, at.now+int64(2*time.Second)
	return false
}

// sweep does all that is due.
func (m *model) sweep(at moment) outcome {
	var out outcome
	for _, d := range m.timers() {
		if d.at > at.now {
			break
		}
		if !out.OK && m.claim(at) {
			return outcome{N: -1}
		}
		out.OK = true // there was work
		if strings.HasPrefix(d.kind, "stale ") {
			m.stale = slices.DeleteFunc(m.stale, func(s due) bool { return s == d })
			continue
		}
		q := m.queues[d.queue]
		item := q.byNumber(d.item.number)
		switch d.kind {
		case "zpush":
			delete(q.pushes, d.id)
		case "pop":
			delete(q.pops, d.id)
		case "lease":
			out.Events = append(out.Events, event(fdbpq.EventLeaseLost, q, item, item.deliveries, "", ""))
			m.release(q, at, item.number, 0, &out)
		case "delay":
			if item == nil {
				continue // its TTL was over before
			}
			if item.expired(at.now) {
				gone := *item
				q.remove(gone.number)
				m.expire(q, at, gone, &out)
				continue
			}
			item.state = fdbpq.StateReady
		case "ttl":
			if item == nil {
				continue
			}
			gone := *item
			q.remove(gone.number)
			m.expire(q, at, gone, &out)
		}
	}
	return out
}

// next is when a sweep is needed again, 0 when never.
func (m *model) next(at moment) time.Duration {
	all := m.timers()
	if len(all) == 0 {
		return 0
	}
	return max(time.Duration(all[0].at-at.now), 1)
}
