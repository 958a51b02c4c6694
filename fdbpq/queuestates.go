package fdbpq

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
)

// queueStates keeps parsed state rows: every transaction reads one, and they seldom change. A state is valid only for the
// bytes that it was parsed from. Most queues are configured alike, so their rows have the same bytes, and they share one
// state. So nothing ever changes a state: whoever writes another one begins with a copy.
type queueStates struct {
	mu      sync.RWMutex
	ofRow   map[string]*parsedState
	ofQueue map[string]*parsedState // as the queue was last read
	bytes   int                     // what the states of ofRow take
}

// parsedState is empty once it has left ofRow: ofQueue may still have it then.
type parsedState struct {
	row   string
	state *queueState
}

const (
	// maxStateBytes bounds the memory of states: these are 26,000 with usual configurations.
	maxStateBytes = 16 << 20

	// maxKnownQueues bounds the queues that are remembered with their states, in 10 megabytes. What a pop reads ahead of a
	// queue beyond it is a guess.
	maxKnownQueues = 131_072
)

// stateBytes is what a state takes, about: its row, the strings of its configuration, and all else.
func stateBytes(row string) int { return 2*len(row) + 384 }

// parse returns the state in a row of the queue.
func (c *queueStates) parse(queue string, raw []byte) (*queueState, error) {
	s, last := c.find(queue, raw)
	if last {
		return s, nil
	}
	if s == nil {
		var err error
		if s, err = parseState(raw); err != nil {
			return nil, fmt.Errorf("queue %q: %w", queue, err)
		}
	}
	return c.keep(queue, raw, s), nil
}

// find returns the state of a row, nil if it is not kept, and whether it is the one that the queue was last read with.
func (c *queueStates) find(queue string, raw []byte) (s *queueState, last bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if known := c.ofQueue[queue]; known != nil && known.row == string(raw) {
		return known.state, known.state != nil
	}
	if known := c.ofRow[string(raw)]; known != nil {
		return known.state, false
	}
	return nil, false
}

// keep remembers the state of a queue, and returns the one that all rows with these bytes share.
func (c *queueStates) keep(queue string, raw []byte, s *queueState) *queueState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ofRow == nil {
		c.ofRow, c.ofQueue = make(map[string]*parsedState), make(map[string]*parsedState)
	}
	known := c.ofRow[string(raw)]
	if known == nil {
		known = &parsedState{row: string(raw), state: s}
		c.makeRoom(stateBytes(known.row))
		c.ofRow[known.row] = known
	}
	if _, there := c.ofQueue[queue]; !there && len(c.ofQueue) >= maxKnownQueues {
		for some := range c.ofQueue { // any of them, in no order
			delete(c.ofQueue, some)
			break
		}
	}
	c.ofQueue[strings.Clone(queue)] = known // the name may be a part of something large
	return known.state
}

// makeRoom takes bytes for a state, from any others, in no order.
func (c *queueStates) makeRoom(bytes int) {
	c.bytes += bytes
	for row, some := range c.ofRow {
		if c.bytes <= maxStateBytes {
			break
		}
		delete(c.ofRow, row)
		c.bytes -= stateBytes(row)
		*some = parsedState{}
	}
}

// forget drops what is known of a queue that is no more.
func (c *queueStates) forget(queue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ofQueue, queue)
}

// last returns the queue's state as it was last read, nil if it is not kept.
func (c *queueStates) last(queue string) *queueState {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if known := c.ofQueue[queue]; known != nil {
		return known.state
	}
	return nil
}

// unknownState is the state of most queues that were not read yet, since most were neither configured
// nor deleted.
var unknownState = &queueState{generation: 1, exists: true, config: defaultConfig()}

// guess is what the queue's state is likely to be, for prefetches.
func (c *queueStates) guess(queue string) *queueState {
	return cmp.Or(c.last(queue), unknownState)
}
