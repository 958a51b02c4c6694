package fdbpq

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// queueState is the row that makes a queue exist. Every transaction on the queue
// depends on it, and commits only with the state that it has read.
type queueState struct {
	generation int64 // of the key space that holds the items; never reused
	exists     bool  // a deleted queue keeps its row until its items are cleared
	paused     bool
	keyed      bool // items of the queue have had keys
	results    bool // results of items of the queue were asked for
	costed     bool // the cost of the queue's deliveries, or of those of one of its keys, has had a rate
	config     Config

	keysSet     int64 // keys that have settings of their own
	keysLimited int64 // keys whose settings have a limit

	keyRateSince int64 // store time at which key_rate was changed
	keyCostSince int64 // store time at which key_cost_rate was changed; only where costed

	backoff *backoff // of the configuration, nil without a backoff
	born    int64    // generation at which the queue was made

	fairOrder int64 // number of the fair order that the transactions keep, if the configuration has one
	fairBuilt bool  // all keys stand in it
	fairTags  bool  // keys that take turns have rows with their tags: costs or weights differ
}

// takesTurns reports whether pops look at keys: their items may have to wait for others.
func (s *queueState) takesTurns() bool {
	return s.keyed && (s.config.limitsKeys() || s.config.ratesKeys() || s.keysSet > 0 || s.fairBuilt)
}

// keysMayWait reports whether keys may have a rate, and wait for its tokens.
func (s *queueState) keysMayWait() bool { return s.config.ratesKeys() || s.keysSet > 0 }

// ratesCost reports whether deliveries take tokens for their cost, of the queue or of some key.
func (s *queueState) ratesCost() bool {
	return s.costed && (s.config.CostRate != (CostRate{}) || s.config.KeyCostRate != (CostRate{}) || s.keysSet > 0)
}

// keyLimited reports whether the leases of keys are counted.
func (s *queueState) keyLimited() bool { return s.config.limitsKeys() || s.keysLimited > 0 }

// itemSpaces are the spaces that may have an item of the queue.
func (s *queueState) itemSpaces() []string {
	if s.keyed {
		return layout.ItemSpaces
	}
	return layout.UnkeyedSpaces
}

var (
	// ErrLeaseRequired: the leases of keys are counted, so a pop without one is refused.
	ErrLeaseRequired = errors.New("a lease is required where key_limit, key_order or the limit of a key is set")

	// ErrOnlyMin: pops visit keys, and know only the next item of each.
	ErrOnlyMin = errors.New("only pop.min and peek.min of all priorities work where items wait for others of their key, or keys take turns")
)

func (s *queueState) refuses(sel *Selection, lease time.Duration) error {
	if lease == 0 && s.keyLimited() {
		return ErrLeaseRequired
	}
	return s.refusesEnd(sel)
}

// refusesEnd returns ErrOnlyMin for a selection that needs more than the next item of each
// key. The configuration decides, whether there are keys or not.
func (s *queueState) refusesEnd(sel *Selection) error {
	c := &s.config
	looks := c.limitsKeys() || c.ratesKeys() || c.Fair != "" || s.keysSet > 0
	if looks && (sel.End != Min || *sel.Band != AllPriorities) {
		return ErrOnlyMin
	}
	return nil
}

// likelyRead reports whether a pop is likely to read the head of the queue's ready items.
func (s *queueState) likelyRead(sel *Selection) bool {
	remembered, byLevel := sel.PopID != "" && sel.Repeated, sel.End == Max && s.config.Ties == TiesOldest
	return !remembered && !byLevel && s.exists && !s.paused && !s.takesTurns() && !s.config.rates()
}

// A queue's state has a version of its own, the lowest one that knows all that the queue
// uses: earlier versions of this program would damage the rest, or forget it when they write
// the state. So they refuse the queue, and serve all others. What is new takes the next
// number with its first use: since in protocol/config.go is the version of a field of the configuration,
// and constants here, which version returns, are the versions of all else. TestEarlierProgramsRefuse knows which
// versions each program reads.
const (
	stateVersion = 1

	// stateNewest is the greatest version.
	stateNewest = max(stateVersion, newestField, versionCost)

	// versionCost is the version of cost, where it has a rate, or where costs or weights decide whose turn it is.
	versionCost = 3

	flagPaused    = 1 << 0
	flagDeleted   = 1 << 1
	flagKeyed     = 1 << 2
	flagFairBuilt = 1 << 3
	flagResults   = 1 << 4
	flagCosted    = 1 << 5
	flagFairTags  = 1 << 6
)

func (s *queueState) pack() ([]byte, error) {
	config, err := json.Marshal(s.config)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	var flags int64
	for _, f := range [...]struct {
		is   bool
		flag int64
	}{
		{s.paused, flagPaused}, {!s.exists, flagDeleted}, {s.keyed, flagKeyed}, {s.results, flagResults}, {s.costed, flagCosted},
		{s.fairBuilt, flagFairBuilt}, {s.fairTags, flagFairTags},
	} {
		if f.is {
			flags |= f.flag
		}
	}
	b := tuple.AppendInt(nil, s.version())
	b = tuple.AppendInt(b, s.generation)
	b = tuple.AppendInt(b, flags)
	b = tuple.AppendBytes(b, config)
	for _, n := range [...]int64{s.born, s.keysSet, s.keysLimited, s.fairOrder, s.keyRateSince} {
		b = tuple.AppendInt(b, n)
	}
	if s.costed {
		b = tuple.AppendInt(b, s.keyCostSince)
	}
	return b, nil
}

// version is the version of the first program that can serve the queue.
func (s *queueState) version() int64 {
	if s.costed || s.fairTags {
		return max(versionCost, s.config.version())
	}
	return s.config.version()
}

// stateHead is what a state row begins with, in formats of later programs too. It is enough to tell whether there is such a
// queue, and takes a small part of the time of the whole row.
type stateHead struct{ version, generation, flags int64 }

func parseStateHead(b []byte) (head stateHead, rest []byte, err error) {
	r := tuple.Read(b)
	if r.Ints(&head.version, &head.generation, &head.flags); r.Err() != nil {
		return stateHead{}, nil, fmt.Errorf("damaged queue state: %w", r.Err())
	}
	if head.version < stateVersion {
		return stateHead{}, nil, fmt.Errorf("damaged queue state: format %d", head.version)
	}
	return head, r.Rest(), nil
}

// unread is the error about a state of a format that this program does not read.
func (h stateHead) unread() error { return stateFormat{h.version, stateVersion, stateNewest} }

func (h stateHead) exists() bool { return h.flags&flagDeleted == 0 }

func parseState(b []byte) (*queueState, error) {
	head, rest, err := parseStateHead(b)
	if err == nil && head.version > stateNewest {
		err = head.unread()
	}
	if err != nil {
		return nil, err
	}
	s := &queueState{generation: head.generation, exists: head.exists(), config: defaultConfig()}
	r := tuple.Read(rest)
	config := r.Bytes()
	if err := cmp.Or(r.Err(), json.Unmarshal(config, &s.config)); err != nil {
		return nil, fmt.Errorf("damaged queue state: %w", err)
	}
	has := func(flag int64) bool { return head.flags&flag != 0 }
	s.paused, s.keyed, s.results, s.costed = has(flagPaused), has(flagKeyed), has(flagResults), has(flagCosted)
	s.fairBuilt, s.fairTags = has(flagFairBuilt), has(flagFairTags)
	r.Ints(&s.born, &s.keysSet, &s.keysLimited, &s.fairOrder, &s.keyRateSince)
	if s.costed {
		s.keyCostSince = r.Int()
	}
	s.backoff, err = s.config.Backoff.parse()
	if err = cmp.Or(r.Err(), err); err != nil {
		return nil, fmt.Errorf("damaged queue state: %w", err)
	}
	return s, nil
}

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

// FormatVersion is the layout of the rows that this version reads and writes. It begins at 2: programs before the first release
// wrote 1, and each of the two refuses the other's store.
const FormatVersion = 2

// ErrFormat: the store, or a queue, was written by an incompatible version.
var ErrFormat = errors.New("incompatible store format")

// stateFormat is the error about a queue whose state has a format that this program does not read. It is an [ErrFormat].
type stateFormat struct{ format, oldest, newest int64 }

func (f stateFormat) Error() string {
	return fmt.Sprintf("queue state has format %d: this version reads %d to %d", f.format, f.oldest, f.newest)
}

func (stateFormat) Is(target error) bool { return target == ErrFormat }
