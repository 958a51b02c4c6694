package fdbpq

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// state is the row that makes a queue exist. Every transaction on the queue
// depends on it, so whoever changes it is seen by all that commits later.
type state struct {
	generation int64 // of the key space that holds the items; never reused
	exists     bool  // a deleted queue keeps its row until its items are cleared
	paused     bool
	config     Config
}

const (
	stateVersion = 1

	flagPaused  = 1 << 0
	flagDeleted = 1 << 1
	// 1 << 2 is what earlier versions gave a queue that dead letters had come to.
)

func (s *state) pack() ([]byte, error) {
	config, err := json.Marshal(s.config)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	var flags int64
	if s.paused {
		flags |= flagPaused
	}
	if !s.exists {
		flags |= flagDeleted
	}
	b := tuple.AppendInt(nil, stateVersion)
	b = tuple.AppendInt(b, s.generation)
	b = tuple.AppendInt(b, flags)
	return tuple.AppendBytes(b, config), nil
}

func parseState(b []byte) (*state, error) {
	var version, flags int64
	s := &state{config: defaultConfig()}
	rest, err := b, error(nil)
	for _, field := range [...]*int64{&version, &s.generation, &flags} {
		if *field, rest, err = tuple.ConsumeInt(rest); err != nil {
			return nil, fmt.Errorf("damaged queue state: %w", err)
		}
	}
	if version != stateVersion {
		return nil, fmt.Errorf("queue state has format %d: this version reads %d", version, stateVersion)
	}
	config, _, err := tuple.ConsumeBytes(rest)
	if err != nil {
		return nil, fmt.Errorf("damaged queue state: %w", err)
	}
	if err := json.Unmarshal(config, &s.config); err != nil {
		return nil, fmt.Errorf("damaged queue state: %w", err)
	}
	s.paused = flags&flagPaused != 0
	s.exists = flags&flagDeleted == 0
	return s, nil
}

// states remembers parsed state rows: every transaction reads one, and few
// ever change. An entry counts only for the very bytes it was parsed from.
type states struct {
	mu     sync.RWMutex
	parsed map[string]parsedState
}

type parsedState struct {
	raw   []byte
	state *state
}

// maxParsedStates bounds the memory of a process that serves ever new queues.
const maxParsedStates = 4096

func (c *states) parse(queue string, raw []byte) (*state, error) {
	c.mu.RLock()
	known, ok := c.parsed[queue]
	c.mu.RUnlock()
	if ok && bytes.Equal(known.raw, raw) {
		return known.state, nil
	}
	s, err := parseState(raw)
	if err != nil {
		return nil, fmt.Errorf("queue %q: %w", queue, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parsed == nil || len(c.parsed) >= maxParsedStates {
		c.parsed = make(map[string]parsedState)
	}
	c.parsed[queue] = parsedState{raw: raw, state: s}
	return s, nil
}

// last returns what the queue's state was when it was last read, nil when it
// is not remembered: a guess, for reading ahead.
func (c *states) last(queue string) *state {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.parsed[queue].state
}

// generation guesses the queue's generation, for prefetches.
func (c *states) generation(queue string) int64 {
	if s := c.last(queue); s != nil {
		return s.generation
	}
	return 1
}

// read returns the queue's state, nil when there is no such queue.
func (q Queue) read(r kv.Reader) (*state, error) {
	s, err := q.readRow(r)
	if err != nil || s == nil || !s.exists {
		return nil, err
	}
	return s, nil
}

// readRow returns the state row, also a deleted queue's. The state is shared:
// copy it before changing it.
func (q Queue) readRow(r kv.Reader) (*state, error) {
	once := q.known != nil && r == kv.Reader(q.known.tx)
	if once && q.known.read {
		return q.known.state, nil
	}
	raw, err := r.Get(queueRow(spaceState, q.name))
	if err != nil {
		return nil, err
	}
	var s *state
	if raw != nil {
		if s, err = q.store.states.parse(q.name, raw); err != nil {
			return nil, err
		}
	}
	if once {
		q.known.state, q.known.read = s, true
	}
	return s, nil
}

// open returns the state of the queue, or the one that it begins with when it is
// not there yet.
func (q Queue) open(tx kv.Tx) (s *state, exists bool, err error) {
	if s, err = q.readRow(tx); err != nil || s != nil && s.exists {
		return s, err == nil, err
	}
	begin := &state{exists: true, config: defaultConfig()}
	if s != nil {
		begin.generation = s.generation // delete has moved it on
		return begin, false, nil
	}
	gone, err := tx.Get(row(spaceGone))
	begin.generation = int64(kv.DecodeInteger(gone)) + 1
	return begin, false, err
}

// found makes the queue exist.
func (q Queue) found(tx kv.Tx, s *state) error {
	if s.generation > 1 {
		// Whoever watched an earlier queue of this name sees a value it has not seen.
		tx.Add(queueRow(spaceArrivals, q.name), s.generation<<32)
	}
	return q.write(tx, s)
}

// create returns the state of the queue, which it makes if need be.
func (q Queue) create(tx kv.Tx) (*state, error) {
	s, exists, err := q.open(tx)
	if err == nil && !exists {
		err = q.found(tx, s)
	}
	return s, err
}

func (q Queue) write(tx kv.Tx, s *state) error {
	raw, err := s.pack()
	if err != nil {
		return err
	}
	tx.Set(queueRow(spaceState, q.name), raw)
	if q.known != nil {
		q.known.state, q.known.read = s, true
	}
	return nil
}
