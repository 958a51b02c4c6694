package request

import (
	"maps"
	"slices"
	"sync"

	"github.com/pqbridge/pqbridge/protocol"
)

// Counter is a kind of event of a queue's items that is counted.
type Counter uint8

// What is counted.
const (
	Pushed Counter = iota
	Duplicates
	Imported
	Popped
	Acknowledged
	Returned
	LeasesLost
	Revoked
	Expired
	Dead
	Evicted
	Removed
	ScheduleFired
	ScheduleMissed
	ScheduleOverlapped

	// These are parts of Returned, and of Dead, that have no metric for each queue.
	Nacked
	GivenBack
	Unreceived
	Terminated

	Counters
)

// ends are the counters of leases that have ended, by how they did.
var ends = map[string]Counter{
	"ack": Acknowledged, "nak": Nacked, "back": GivenBack, "unreceived": Unreceived, "terminated": Terminated, "expired": LeasesLost, "revoked": Revoked,
}

// Ended is how many leases of all queues have ended, by how they did.
func (s *Statistics) Ended() map[string]int64 {
	tally, counts := s.Queues.all(), make(map[string]int64, len(ends))
	for how, counter := range ends {
		counts[how] = tally[counter]
	}
	return counts
}

// Tally counts the events of a queue's items.
type Tally [Counters]int64

// QueueCounts are the counts of a queue since it has a place, or of all queues without a place.
type QueueCounts struct {
	Tally
	NotServed map[protocol.Reason]int64 // requests, by the reason in their answers

	used  bool // something was counted
	fresh bool // something was counted since the places were last looked through
}

func (c *QueueCounts) count(tally *Tally) {
	for i, n := range tally {
		c.Tally[i] += n
	}
	c.used, c.fresh = true, true
}

// PerQueue counts the events of queues' items. A bounded number of queues have a place, and counts of their own:
// those that were counted first. A queue keeps its place until it is gone. The other queues are counted together.
type PerQueue struct {
	mu     sync.Mutex
	most   int
	places map[string]*QueueCounts
	unused []string // queues that had a place and no counts when places were filled
	rest   QueueCounts
	total  Tally // of all queues
}

func newPerQueue(most int) *PerQueue {
	return &PerQueue{most: most, places: make(map[string]*QueueCounts)}
}

// Count adds events to a queue.
func (p *PerQueue) Count(queue string, tally *Tally) {
	if *tally == (Tally{}) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(queue).count(tally)
	for i, n := range tally {
		p.total[i] += n
	}
}

// all are the events of all queues.
func (p *PerQueue) all() Tally {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// notServed counts requests that a queue did not serve. They neither give a queue a place nor keep it there, since
// any name can be asked for.
func (p *PerQueue) notServed(queue string, reason protocol.Reason, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.places[queue]
	if c == nil {
		c = &p.rest
	}
	if c.NotServed == nil {
		c.NotServed = make(map[protocol.Reason]int64)
	}
	c.NotServed[reason] += n
}

// of returns the counts of a queue. A queue without a place gets one, if need be the place of a queue that was
// never counted.
func (p *PerQueue) of(queue string) *QueueCounts {
	if c := p.places[queue]; c != nil {
		return c
	}
	if len(p.places) >= p.most && !p.dropUnused() {
		return &p.rest
	}
	c := new(QueueCounts)
	p.places[queue] = c
	return c
}

func (p *PerQueue) dropUnused() bool {
	for len(p.unused) > 0 {
		last := len(p.unused) - 1
		name := p.unused[last]
		p.unused = p.unused[:last]
		if c := p.places[name]; c != nil && !c.used {
			delete(p.places, name)
			return true
		}
	}
	return false
}

// Look returns the queues that have a place, and how many more may get one.
func (p *PerQueue) Look() (queues []string, free int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, c := range p.places {
		queues = append(queues, name)
		c.fresh = false
	}
	return queues, p.most - len(p.places)
}

// Fill gives places to queues as long as there are some.
func (p *PerQueue) Fill(queues []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range queues {
		if len(p.places) >= p.most {
			break
		}
		if p.places[name] == nil {
			p.places[name] = new(QueueCounts)
		}
	}
	p.unused = p.unused[:0]
	for name, c := range p.places {
		if !c.used {
			p.unused = append(p.unused, name)
		}
	}
	slices.Sort(p.unused) // so that the last by name goes first
}

// Gone takes the place from a queue that does not exist, unless it was counted since Look: then it may have been
// made again.
func (p *PerQueue) Gone(queue string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.places[queue]; c != nil && !c.fresh {
		delete(p.places, queue)
	}
}

// Counts returns the counts of each queue that has a place, and of the others together.
func (p *PerQueue) Counts() (queues map[string]QueueCounts, rest QueueCounts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	queues = make(map[string]QueueCounts, len(p.places))
	for name, c := range p.places {
		queues[name] = c.copy()
	}
	return queues, p.rest.copy()
}

func (c *QueueCounts) copy() QueueCounts {
	return QueueCounts{Tally: c.Tally, NotServed: maps.Clone(c.NotServed)}
}

// Most is how many queues can have a place.
func (p *PerQueue) Most() int { return p.most }
