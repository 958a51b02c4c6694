package versions_test

import (
	"sync"
	"time"
)

// journal is what users know of the items of their queues. Its times are those of one clock, which no store can
// influence.
type journal struct {
	begun time.Time
	slack time.Duration // by which times of the store may be wrong

	mu     sync.Mutex
	items  map[string]*item
	pauses []pause
	wrong  []string // answers that are wrong whatever the others are
}

// span is when something happened: between a request and its answer.
type span struct{ call, answer time.Duration }

// before reports whether one was over when the other began.
func (s span) before(o span) bool { return s.answer < o.call }

// item is one that a user pushed, or tried to push.
type item struct {
	name, queue, id    string
	key, unique, color string
	untilLeased        bool // it has its unique value only so long
	size               int
	priorities         []int64 // that it may have
	delay, ttl         time.Duration

	pushed    span
	push      certainty
	repeated  bool // the push: an earlier attempt may have added it
	duplicate bool // another item had its unique value

	handouts []handout
	ends     []event // by which it is gone, or may be
	failures []event
	returns  []event
	given    []string // reasons with which it was given up
	revoked  bool     // somebody has tried to take a lease of it away
}

type certainty int

const (
	possible certainty = iota // it may have happened
	certain
	never
)

// event happened to an item, or may have.
type event struct {
	span
	what   string
	really certainty
}

// handout is an answer with the item.
type handout struct {
	span
	id, ack     string
	lease       time.Duration // 0: it was popped for good
	fence       int64
	failures    int64
	interrupted int64
	returned    int64
	counted     bool // these three are known
	repeated    bool
	dead        string // reason, of a dead letter
	settled     bool   // somebody has tried to settle it
}

// pause is a time in which a queue was paused for certain.
type pause struct {
	queue string
	span
}

func newJournal(slack time.Duration) *journal {
	return &journal{begun: time.Now(), slack: slack, items: make(map[string]*item)}
}

func (j *journal) now() time.Duration { return time.Since(j.begun) }

// note changes the journal.
func (j *journal) note(change func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change()
}

// push notes an item before it is pushed.
func (j *journal) push(it *item) {
	j.note(func() {
		it.pushed = span{j.now(), forever}
		j.items[it.name] = it
	})
}

// forever is the answer to a request that has none.
const forever = time.Duration(1<<63 - 1)

// settled notes how an item was settled.
func (j *journal) settled(to *[]event, what string, call time.Duration, really certainty) {
	j.note(func() {
		if really != never {
			*to = append(*to, event{span{call, j.now()}, what, really})
		}
	})
}
