package fdbpq

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// FormatVersion is the layout of the rows that this version reads and writes.
const FormatVersion = 1

var (
	// ErrNoQueue: the queue does not exist and may not be made by a push.
	ErrNoQueue = errors.New("no such queue")
	// ErrContent: an item has more bytes than MaxContent.
	ErrContent = errors.New("item too large")
	// ErrFull: the queue holds max_length items and refuses more.
	ErrFull = errors.New("queue is full")
	// ErrFormat: the store was written by an incompatible version.
	ErrFormat = errors.New("incompatible store format")
)

// Options are the choices of whoever opens a store. The zero value is right
// for most.
type Options struct {
	// RefuseUnknown makes pushes to a queue that does not exist fail with
	// ErrNoQueue; Configure makes queues then.
	RefuseUnknown bool

	// Exclusive says that no other process can have the store open: Open need
	// not watch whether others keep store time going.
	Exclusive bool

	// Wall, Elapsed and Wait replace the machine's clocks in tests: the time of
	// day, the time since some fixed moment, and letting time pass.
	Wall    func() time.Time
	Elapsed func() time.Duration
	Wait    func(context.Context, time.Duration) error
}

// Store holds queues in a key-value store. Its methods may be called from any
// number of goroutines, and any number of processes may open the same store if
// its engine lets them.
type Store struct {
	db            kv.DB
	id            string
	secret        []byte
	refuseUnknown bool
	clock         clock
	resumed       bool // no process ran before this one: what fell due meanwhile has a grace
	sessions      sessions
	states        states
	due           alarm
	lines         lines
	aside         aside
}

// Open makes the store's queues available, and the store itself when db is
// empty. It does not take over db: closing that is the caller's.
//
// Before it returns, store time has caught up with the time in which no process
// ran. Where others might be running it takes up to three seconds to find out,
// unless store time was moved a moment ago.
func Open(ctx context.Context, db kv.DB, options Options) (*Store, error) {
	s := &Store{db: db, refuseUnknown: options.RefuseUnknown}
	s.clock.init(options)
	s.due.init()
	if _, err := rand.Read(s.sessions.process[:]); err != nil {
		return nil, err
	}
	var fresh [48]byte // made once: the closure may run again after an unknown result
	if _, err := rand.Read(fresh[:]); err != nil {
		return nil, err
	}
	var last moved
	for {
		err := db.Update(ctx, func(tx kv.Tx) (err error) {
			last, err = s.load(tx, fresh)
			return err
		})
		if errors.Is(err, kv.ErrUnknown) {
			continue // running it twice changes nothing
		}
		if err == nil {
			err = s.resume(ctx, last, options.Exclusive)
		}
		if err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
		return s, nil
	}
}

// load reads the rows that make up a store's identity, and writes them into an
// empty one. It returns when store time was last moved.
func (s *Store) load(tx kv.Tx, fresh [48]byte) (moved, error) {
	rows, err := tx.GetAll([][]byte{row(spaceFormat), row(spaceSecret), row(spaceTime), row(spaceWall)})
	if err != nil {
		return moved{}, err
	}
	format, secret, now, wall := rows[0], rows[1], rows[2], rows[3]
	if format == nil {
		strangers, err := tx.Range([]byte{0x00}, []byte{0xff}, kv.RangeOptions{Limit: 1})
		if err != nil {
			return moved{}, err
		}
		if len(strangers) > 0 {
			return moved{}, fmt.Errorf("%w: there is data, but no format version: expected an empty key space or a pqbridge store", ErrFormat)
		}
		format = tuple.AppendString(tuple.AppendInt(nil, FormatVersion), hex.EncodeToString(fresh[:16]))
		secret = fresh[16:]
		now = kv.EncodeInteger(uint64(s.clock.wall().UnixNano()))
		tx.Set(row(spaceFormat), format)
		tx.Set(row(spaceSecret), secret)
		tx.Set(row(spaceTime), now)
		tx.Set(row(spaceWall), now)
	}
	version, rest, err := tuple.ConsumeInt(format)
	if err != nil {
		return moved{}, fmt.Errorf("%w: the version row is damaged: %w", ErrFormat, err)
	}
	if version != FormatVersion {
		return moved{}, fmt.Errorf("%w: the store has version %d, this program reads and writes %d", ErrFormat, version, FormatVersion)
	}
	if s.id, _, err = tuple.ConsumeString(rest); err != nil {
		return moved{}, fmt.Errorf("%w: the version row is damaged: %w", ErrFormat, err)
	}
	s.secret = secret
	return moved{to: int64(kv.DecodeInteger(now)), wall: int64(kv.DecodeInteger(wall))}, nil
}

// ID tells stores apart. It is made with the store and never changes.
func (s *Store) ID() string { return s.id }

// Secret is the store's own key for authenticating what it hands out, the same
// for every process that opens the store.
func (s *Store) Secret() []byte { return s.secret }

// View runs fn on one consistent state of the store.
func (s *Store) View(ctx context.Context, fn func(kv.Reader) error) error {
	return s.db.View(ctx, fn)
}

// Queue returns a handle for the queue with this name, which need not exist.
func (s *Store) Queue(name string) Queue {
	return Queue{store: s, name: name}
}

// Queue is one queue of a store. Its methods work inside a transaction of the
// caller's and take effect when that commits.
type Queue struct {
	store *Store
	name  string
	known *known
}

// In returns a handle for many operations on the queue within one transaction:
// it reads the queue's state and the time only once. Other handles must not
// change the queue's configuration, pause, purge or delete it meanwhile.
func (q Queue) In(tx kv.Tx) Queue {
	q.known = &known{tx: tx}
	return q
}

// known is what a transaction has read about a queue.
type known struct {
	tx    kv.Tx
	state *state
	read  bool
	clock int64

	buffers buffers
}

// Name returns the queue's name.
func (q Queue) Name() string { return q.name }

// Queues returns up to limit names of existing queues in order, those after
// the given one.
func (s *Store) Queues(r kv.Reader, after string, limit int) ([]string, error) {
	prefix := tuple.AppendString(nil, spaceState)
	begin, end := tuple.Range(prefix)
	if after != "" {
		begin = append(queueRow(spaceState, after), 0)
	}
	var names []string
	for len(names) < limit {
		page, err := r.Range(begin, end, kv.RangeOptions{Limit: min(limit, queuesPerRead)})
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		for _, pair := range page {
			name, _, err := tuple.ConsumeString(pair.Key[len(prefix):])
			if err != nil {
				return nil, fmt.Errorf("damaged queue name: %w", err)
			}
			state, err := parseState(pair.Value)
			if err != nil {
				return nil, fmt.Errorf("queue %q: %w", name, err)
			}
			if state.exists && len(names) < limit {
				names = append(names, name)
			}
		}
		begin = append(page[len(page)-1].Key, 0)
	}
	return names, nil
}

const queuesPerRead = 1000
