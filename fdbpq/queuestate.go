package fdbpq

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
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
	unique     bool // items of the queue have had unique values
	results    bool // results of items of the queue were asked for
	config     Config

	keysSet     int64 // keys that have settings of their own
	keysLimited int64 // keys whose settings have a limit

	keyRateSince int64 // store time at which key_rate was changed

	backoff *backoff // of the configuration, nil without a backoff
	born    int64    // generation at which the queue was made, or had its first backoff or schedule; 0: before these

	fairOrder int64 // number of the fair order that the transactions keep, if the configuration has one
	fairBuilt bool  // all keys stand in it
}

// takesTurns reports whether pops look at keys: their items may have to wait for others.
func (s *queueState) takesTurns() bool {
	return s.keyed && (s.config.limitsKeys() || s.config.KeyRate != (Rate{}) || s.keysSet > 0 || s.fairBuilt)
}

// keysMayWait reports whether keys may have a rate, and wait for its tokens.
func (s *queueState) keysMayWait() bool { return s.config.KeyRate != (Rate{}) || s.keysSet > 0 }

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
	looks := c.limitsKeys() || c.KeyRate != (Rate{}) || c.Fair != "" || s.keysSet > 0
	if looks && (sel.End != Min || *sel.Band != AllPriorities) {
		return ErrOnlyMin
	}
	return nil
}

// likelyRead reports whether a pop is likely to read the head of the queue's ready items.
func (s *queueState) likelyRead(sel *Selection) bool {
	remembered, byLevel := sel.PopID != "" && sel.Repeated, sel.End == Max && s.config.Ties == TiesOldest
	return !remembered && !byLevel && s.exists && !s.paused && !s.takesTurns() && s.config.Rate == (Rate{})
}

// A queue's state has a version of its own, the lowest one that knows all that the queue
// uses: earlier versions of this program would damage the rest, or forget it when they write
// the state. So they refuse the queue, and serve all others. What is new takes the next
// number with its first use: since in protocol/config.go is the version of a field of the configuration,
// and constants here are the versions of all else. TestEarlierProgramsRefuse knows which versions each program reads.
const (
	stateVersion = 1

	// stateKeyed is the version of a queue whose items have had keys.
	stateKeyed = 2

	// stateTurns is the version of a queue with a fair order, a rate of keys that has changed, or settings of keys.
	stateTurns = 3

	// stateUnique is the version of a queue whose items have had unique values, or that limits keys before an item has had a key:
	// of keys, programs of stateKeyed keep the limits alone.
	stateUnique = 4

	// stateBorn is the version of a queue that has had a backoff, or schedules.
	stateBorn = 5

	// stateResults is the version of a queue whose items have asked for results.
	stateResults = 7

	// stateNewest is the greatest version.
	stateNewest = max(stateResults, newestField)

	flagPaused  = 1 << 0
	flagDeleted = 1 << 1
	// Earlier versions set 1 << 2 on queues that had received dead letters.

	// These are flags from stateTurns on.
	flagKeyed     = 1 << 3
	flagFairBuilt = 1 << 4
	flagUnique    = 1 << 5
	flagResults   = 1 << 6 // from stateResults on
)

func (s *queueState) pack() ([]byte, error) {
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
	version := s.version()
	if version >= stateTurns {
		if s.keyed {
			flags |= flagKeyed
		}
		if s.fairBuilt {
			flags |= flagFairBuilt
		}
		if s.unique {
			flags |= flagUnique
		}
		if s.results {
			flags |= flagResults
		}
	}
	b := tuple.AppendInt(nil, version)
	b = tuple.AppendInt(b, s.generation)
	b = tuple.AppendInt(b, flags)
	b = tuple.AppendBytes(b, config)
	if version >= stateTurns {
		for _, n := range [...]int64{s.keysSet, s.keysLimited, s.fairOrder, s.keyRateSince} {
			b = tuple.AppendInt(b, n)
		}
	}
	if version >= stateBorn {
		b = tuple.AppendInt(b, s.born)
	}
	return b, nil
}

// version is the version of the first program that can serve the queue.
func (s *queueState) version() int64 {
	version := s.config.version()
	switch {
	case s.results:
		return max(version, stateResults)
	case s.born > 0:
		return max(version, stateBorn)
	case s.unique || !s.keyed && s.config.limitsKeys():
		return max(version, stateUnique)
	case s.keysSet > 0 || s.fairOrder > 0 || s.keyRateSince > 0:
		return max(version, stateTurns)
	case s.keyed:
		return max(version, stateKeyed)
	}
	return version
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
	version, flags := head.version, head.flags
	r := tuple.Read(rest)
	config := r.Bytes()
	if err := cmp.Or(r.Err(), json.Unmarshal(config, &s.config)); err != nil {
		return nil, fmt.Errorf("damaged queue state: %w", err)
	}
	s.config.DedupLimit = min(s.config.DedupLimit, MaxDedupLimit) // earlier versions took any
	s.paused = flags&flagPaused != 0
	s.keyed = version == stateKeyed || version >= stateTurns && flags&flagKeyed != 0
	if version >= stateTurns {
		s.fairBuilt, s.unique, s.results = flags&flagFairBuilt != 0, flags&flagUnique != 0, flags&flagResults != 0
		r.Ints(&s.keysSet, &s.keysLimited, &s.fairOrder, &s.keyRateSince)
	}
	if version >= stateBorn {
		s.born = r.Int()
		s.backoff, err = s.config.Backoff.parse()
	}
	if err = cmp.Or(r.Err(), err); err != nil {
		return nil, fmt.Errorf("damaged queue state: %w", err)
	}
	return s, nil
}
