package fdbpq_test

import (
	"cmp"
	"maps"
	"math/bits"
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
	alone   bool   // one process at a time has the store open: the last one's terms bind nobody
	born    int    // items so far
	stale   []due  // timers of purged items, which stay until they are collected
	others  []due  // timers that belong to no item
	fences  modelFences
	firing  modelFiring

	// Where operations overlap: the last place in each queue before they began.
	// Places of pushes are then the store's choice, beyond that.
	floor map[string]int64
}

type modelQueue struct {
	name          string
	exists        bool
	paused        bool
	generation    int
	config        fdbpq.Config
	high          int64 // last place in push order
	unseen        int64 // places behind high at most that items had which the store never showed
	items         []modelItem
	pushes        map[string]modelPush
	pops          map[string]modelPop
	garbage       int   // generations left behind
	promisedFence int64 // highest that an import was promised to exceed
	promises      bool  // the import under way was promised one
	keyed         bool  // it has had items with keys
	settings      map[string]fdbpq.KeySettings
	bucket        modelBucket
	keyBuckets    map[string]modelBucket
	keyRateSet    int64 // when key_rate was changed
	costed        bool  // a cost has had a rate
	costs         modelCosts
	keyCosts      map[string]modelCosts
	keyCostSet    int64 // when key_cost_rate was changed
	fairOrder     int
	fairBuilt     bool // pops go by that order
	schedules     map[string]modelSchedule
	links         map[string]modelLink
	results       map[string]modelResult // by the ids of their items
	taker         *modelTaker            // which another one replaces when it changes
	used          int64                  // when it was last used, as far as that was noted, if it deletes itself
	look          int64                  // when a sweep looks whether it is in use
}

type modelItem struct {
	number         int    // tells the model's items apart
	id             string // "" when the store has not shown it yet
	priority       int64
	seq            int64
	tie            string // orders concurrent pushes
	payload        string
	headers        string
	pushed         int64 // by a wall clock
	state          fdbpq.State
	due            int64
	returnPriority int64 // priority to come back to from a lease
	expires        int64
	lease          int64 // 1: it has one that has not ended
	failures       int64
	interruptions  int64
	returns        int64
	unreceived     int64
	fence          int64
	minFence       int64 // the next fence is no lower
	extraAnswers   int   // with this lease, beyond the first
	dead           fdbpq.DeadLetter
	unique         string // its value, as long as it claims that
	untilLeased    bool
	key            string
	keyFence       int64 // of its last lease
	held           bool  // delayed between two leases while key_order was on
	ofLink         bool  // leased by a link, without an end
	givenBack      bool  // its last lease did not run out
	takenAway      bool  // it was revoked
	since          int64 // when its last lease began
	holder         string
	attempts       modelAttempts
	progress       string        // what a holder has said of it
	progressAt     int64         // when
	spent          int64         // when its delivery took tokens
	tokenBack      bool          // that of the queue came back
	keyTokenBack   bool          // that of its key did
	cost           int64         // as its push says, 0: 1
	charged        int64         // what its last lease has paid of it, and has not got back
	costBack       bool          // that came back
	asks           time.Duration // for how long its result is kept
}

// moment is when and where an operation happens.
type moment struct {
	process string
	now     int64 // store time
	written int64 // the same as it was last written
	wall    time.Time
	elapsed int64 // by its monotonic clock
	opened  int64 // store time when the process began
}

// display is the time of day that a store time stands for.
func (m moment) display(due int64) int64 { return m.wall.UnixNano() + due - m.now }

// outcome is what an operation answers, in a form that can be compared.
type outcome struct {
	Err      string // what kind of error; "" for none
	Items    []itemView
	Leased   time.Duration // of the items
	Reason   fdbpq.Reason
	Ready    int64
	More     bool
	Final    bool
	Events   []string
	Pushed   []pushedView
	Imported []importedView
	Counts   fdbpq.Counts
	Config   fdbpq.Config
	OK       bool
	N        int64
	Retry    time.Duration

	Schedules []scheduleView
	Batches   []batchView // of links
	Kept      string      // what became of the results of items that were settled
	Results   []resultView
	Explained explainView
	Reserved  int64 // by the lease that a settlement ends
	Tokens    int64 // of the queue's cost
	Key       keyView
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
	Endings    fdbpq.Endings
	Dead       fdbpq.DeadLetter
	Fence      int64
	Expires    int64
	State      fdbpq.State
	Due        int64
	Since      int64
	Until      int64 // end of the TTL
	Unique     string
	UntilLease bool
	Key        string
	KeyFence   int64
	KeyAhead   int
	Holder     string
	Held       bool
	Attempts   []modelAttempt
	Cause      string
	Backoff    time.Duration // of a leased item, if it is given back now
	ResultTTL  time.Duration
	Progress   string // its bytes
	ProgressAt int64
	Cost       int64

	number       int    // the model's
	generation   int    // of the model's queue when it gave this lease
	queue, token string // the store's, of a lease
	backoff      string // of the queue that gave a lease, if it has one
}

func newModel() *model {
	return &model{
		queues: make(map[string]*modelQueue),
		fences: modelFences{last: make(map[keyOfQueue]int64), kept: make(map[keyOfQueue]bool)},
		firing: modelFiring{apart: make(map[string]modelApartness)},
	}
}

func (m *model) clone() *model {
	c := *m
	c.fences.last, c.fences.kept = maps.Clone(m.fences.last), maps.Clone(m.fences.kept)
	c.firing.apart, c.firing.gone = maps.Clone(m.firing.apart), slices.Clone(m.firing.gone)
	c.floor = maps.Clone(m.floor)
	c.stale, c.others = slices.Clone(m.stale), slices.Clone(m.others)
	c.queues = make(map[string]*modelQueue, len(m.queues))
	for name, q := range m.queues {
		copied := *q
		copied.items = slices.Clone(q.items)
		copied.pushes = maps.Clone(q.pushes)
		copied.pops = maps.Clone(q.pops)
		copied.schedules, copied.links, copied.results = maps.Clone(q.schedules), maps.Clone(q.links), maps.Clone(q.results)
		copied.settings, copied.keyBuckets = maps.Clone(q.settings), maps.Clone(q.keyBuckets)
		copied.keyCosts = maps.Clone(q.keyCosts)
		c.queues[name] = &copied
	}
	return &c
}

// equal reports whether two models are in the same state, however they number
// their items.
func (m *model) equal(other *model) bool {
	return reflect.DeepEqual(m.plain(), other.plain())
}

// plain is the model without what no operation can observe.
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
		for name, l := range q.links {
			l.out = slices.Clone(l.out)
			for i := range l.out {
				l.out[i] = number(l.out[i])
			}
			q.links[name] = l
		}
		for id, r := range q.results {
			r.nextNumber = 0
			q.results[id] = r
		}
	}
	for i := range c.stale {
		c.stale[i].item = modelItem{}
	}
	return c
}

// learn takes from an answer what only the store knows: ids of dead items, and
// tokens. An answer may show an item more than once.
func (m *model) learn(want *outcome, got outcome) []heldLease {
	var leases []heldLease
	named := make(map[int]itemView) // by the model's number
	for i := range min(len(want.Items), len(got.Items)) {
		ours, theirs := &want.Items[i], got.Items[i]
		if first, again := named[ours.number]; ours.ID == "" && again {
			ours.ID, ours.Seq = first.ID, first.Seq
		} else if ours.ID == "" && theirs.ID != "" && !m.knows(theirs.ID) {
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
			named[ours.number] = *ours
		}
		if _, new := named[ours.number]; new && ours.backoff != "" { // which depends on the id
			ours.Backoff = retryAfter(ours.backoff, ours.ID, ours.Deliveries)
		}
		if theirs.token != "" {
			leases = append(leases, heldLease{queue: theirs.queue, token: theirs.token, id: theirs.ID, fence: theirs.Fence, generation: ours.generation})
		}
	}
	return leases
}

// knows reports whether an item has this id.
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
	q := m.named(name)
	if !q.exists {
		q.exists = true
		q.config = defaultConfig()
	}
	return q
}

// named returns a queue, which need not exist.
func (m *model) named(name string) *modelQueue {
	q := m.queues[name]
	if q == nil {
		q = &modelQueue{name: name, pushes: make(map[string]modelPush), pops: make(map[string]modelPop), results: make(map[string]modelResult)}
		m.queues[name] = q
	}
	return q
}

func defaultConfig() fdbpq.Config {
	return fdbpq.Config{
		MaxDeliveries: 16,
		DedupWindow:   fdbpq.Duration(2 * time.Minute),
		DedupLimit:    1_000_000,
		Ties:          fdbpq.TiesNewest,
		Overflow:      fdbpq.OverflowRefuse,
		Attempts:      16,
	}
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
	n := fdbpq.Counts{Remembered: int64(len(q.pushes) + len(q.pops)), Results: int64(len(q.results))}
	for _, r := range q.results {
		n.ResultBytes += resultCosts + int64(len(r.body)+len(r.cause))
	}
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
		n.Bytes, n.Overhead = n.Bytes+item.size(), n.Overhead+item.overhead()
	}
	return n
}

// deliveries is how often the item was handed out with a lease.
func (i *modelItem) deliveries() int64 { return i.failures + i.interruptions + i.returns + i.lease }

func (i *modelItem) endings() fdbpq.Endings {
	return fdbpq.Endings{Failures: i.failures, Interruptions: i.interruptions, Returns: i.returns}
}

func (i *modelItem) size() int64 { return int64(len(i.payload) + len(i.headers)) }

// overhead is what the item's texts take beyond 512 bytes: a unique value has two rows, a key four.
func (i *modelItem) overhead() int64 {
	n := 2*len(i.unique) + 4*len(i.key) + len(i.progress) + len(i.dead.Reason) + len(i.dead.Origin) + len(i.dead.OriginID)
	for _, a := range i.attempts.all() {
		for _, number := range []int64{a.N, a.Start, a.End} {
			n += 1 + (bits.Len64(uint64(number))+7)/8
		}
		n += len(a.Holder) + len(a.Outcome) + len(a.Reason) + 3*len("\x02\x00")
	}
	return max(0, int64(n)-512)
}

func (i *modelItem) expired(now int64) bool { return i.expires != 0 && i.expires <= now }

func (i *modelItem) view() itemView {
	return itemView{
		ID: i.id, Seq: i.seq, Priority: i.priority, Payload: digest(i.payload), Headers: digest(i.headers), Size: i.size(),
		Pushed: i.pushed, Deliveries: i.deliveries(), Endings: i.endings(), Dead: i.dead, Key: i.key, Cost: i.shownCost(), number: i.number,
	}
}

func (i *modelItem) stored() itemView {
	v := i.view()
	v.State, v.Fence, v.KeyFence, v.Until = i.state, i.fence, i.keyFence, i.expires
	if !strings.HasPrefix(i.unique, "\x00") { // a schedule's own
		v.Unique, v.UntilLease = i.unique, i.untilLeased && i.unique != ""
	}
	v.Holder, v.Held, v.Attempts, v.Cause, v.ResultTTL = i.holder, i.ofLink, i.attempts.all(), i.cause(), i.asks
	v.Progress, v.ProgressAt = digest(i.progress), i.progressAt
	if i.state != fdbpq.StateReady && !i.ofLink {
		v.Due = i.due
	}
	if i.state == fdbpq.StateLeased && !i.ofLink {
		v.Since = i.since
	}
	return v
}

func (q *modelQueue) leased(i *modelItem, at moment) itemView {
	v := i.view()
	v.ResultTTL, v.Progress, v.ProgressAt = i.asks, digest(i.progress), i.progressAt
	v.generation, v.Backoff, v.backoff = q.generation, q.backoff(i), string(q.config.Backoff)
	v.Fence, v.KeyFence, v.Expires = i.fence, i.keyFence, at.display(i.due)
	return v
}

// found takes the id and the place of a dead item from what the store shows.
func (m *model) found(q *modelQueue, item *modelItem, seen itemView) {
	item.id, item.tie = seen.ID, placeOf(seen.ID).tie
	m.namedNext(item.number, item.id)
	switch {
	case m.floor != nil && seen.Seq > m.floor[q.name]:
		item.seq = seen.Seq
		q.high = max(q.high, seen.Seq)
	case m.floor == nil && seen.Seq > item.seq && seen.Seq <= item.seq+q.unseen:
		q.high, q.unseen = q.high+seen.Seq-item.seq, 0
		item.seq = seen.Seq
	}
}

func (m *model) add(q *modelQueue, item modelItem) int {
	m.born++
	item.number = m.born
	q.keyed = q.keyed || item.key != ""
	q.items = append(q.items, item)
	return item.number
}
