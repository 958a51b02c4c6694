// Package fdbpq keeps durable, double-ended priority queues in a transactional
// key-value store. It extends FoundationDB's priority-queue recipe. It knows no
// network: its functions run inside a transaction of the caller, so a program can
// push or settle together with changes of its own data.
//
// # Order
//
// Items are ordered by priority, low first, then by push order, then by a
// random part that tells concurrent pushes apart. Min is the first item in that
// order, Max the last. An item keeps its place for life: a delay, a lease that
// ends, and a move to another priority and back do not change it.
//
// # States
//
//	push, delayed                    push
//	      │                           │
//	      ▼        due                ▼        Pop
//	   delayed ───────────────────► ready ───────────────► gone
//	      ▲                         │   ▲                    ▲
//	      │ Nack with a delay       │   │ Nack, Return,      │
//	      │                   Lease │   │ lease ran out      │ Ack
//	      │                         ▼   │                    │
//	      └─────────────────────── leased ───────────────────┘
//	                                  │
//	                                  │ Terminate, or back after the
//	                                  ▼ last delivery allowed
//	                          dead-letter queue
//
// A ready or delayed item past its TTL is dropped or goes to the dead-letter
// queue. Remove removes an item in any state.
//
// # Guarantees
//
//   - No item is delivered to two consumers at once. One transaction pops an item,
//     and an item has at most one valid lease, whatever processes, clocks and the
//     store do.
//   - A lost lease settles nothing. The fence grows with each lease of an item, so
//     that a worker can guard its own writes, too.
//   - An item that is ready when a pop begins is not passed over for a less urgent
//     one.
//   - Pushes conflict with nothing. Pops conflict only with each other.
//   - Due times are store time, which every process moves forward by its own
//     monotonic clock. A wrong wall clock neither ends leases early nor extends them.
//   - A transaction run by [Session.Update] takes effect exactly once, even when the
//     store cannot tell whether a commit succeeded. The caller of a transaction of
//     its own has to see to that itself.
package fdbpq

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/session"
	"github.com/pqbridge/pqbridge/fdbpq/internal/storetime"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

var (
	// ErrNoQueue: the queue does not exist, and pushes may not make it.
	ErrNoQueue = errors.New("no such queue")
	// ErrContent: an item has more bytes than MaxContent.
	ErrContent = errors.New("item too large")
	// ErrFull: the queue has max_length items, or max_bytes.
	ErrFull = errors.New("queue is full")
	// ErrFormat: the store was written by an incompatible version.
	ErrFormat = errors.New("incompatible store format")
)

// Options are settings for Open. The zero value suits most programs.
type Options struct {
	// RefuseUnknown makes pushes to a queue that does not exist fail with ErrNoQueue.
	// Then only Configure makes queues.
	RefuseUnknown bool

	// Exclusive says that no other process can have the store open. So Open need not watch
	// for other processes, and nobody waits for the end of another one's term.
	Exclusive bool

	// Strict has all queues be strict, whatever their configurations say. It is for an
	// engine whose transactions take no longer than a moment: there, a pop that runs again
	// costs little.
	Strict bool

	// MaxQueueBytes bounds every queue as Config.MaxBytes does, which may not exceed it. 0:
	// no bound.
	MaxQueueBytes int64

	// Downtime is how long ago the store was last written to, if the caller knows that by
	// a monotonic clock. Open adds it to store time and asks no wall clock: the last writer
	// may have been another machine. It is for a process that takes over from another one.
	Downtime *time.Duration

	// Wall, Elapsed and Wait replace the machine's clocks in tests: the time of day,
	// the time since some fixed moment, and a pause.
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
	strict        bool
	exclusive     bool
	clock         *storetime.Clock
	process       [16]byte // name of this one
	maxQueueBytes int64
	maxKeysOwing  int64
	maxKeysSet    int64
	wasDown       bool // Open added a downtime: due timers wait for grace
	sessions      *session.Pool
	queueStates   queueStates
	alarm         alarm
	damagedTimers damagedTimers
	runner        runner
}

// Open opens the store in db, and makes one when db is empty. The caller closes db.
//
// Open adds the time in which no process ran to store time. Unless the options say
// Exclusive, it may first watch for up to three seconds whether other processes run.
func Open(ctx context.Context, db kv.DB, options Options) (*Store, error) {
	s := &Store{db: db, refuseUnknown: options.RefuseUnknown, strict: options.Strict, exclusive: options.Exclusive, maxQueueBytes: options.MaxQueueBytes, maxKeysOwing: MaxKeysOwing, maxKeysSet: MaxKeysSet}
	s.clock = storetime.New(row(spaceTime), row(spaceWall), storetime.Clocks{Wall: options.Wall, Elapsed: options.Elapsed, Wait: options.Wait})
	s.alarm.init()
	s.runner.init()
	if _, err := rand.Read(s.process[:]); err != nil {
		return nil, err
	}
	s.sessions = session.NewPool(db, row(spaceSession), s.process[:])
	var fresh [48]byte // made once, since the closure may run again after an unknown result
	if _, err := rand.Read(fresh[:]); err != nil {
		return nil, err
	}
	var last storetime.Record
	for {
		err := db.Update(ctx, func(tx kv.Tx) (err error) {
			last, err = s.load(tx, fresh)
			return err
		})
		if errors.Is(err, kv.ErrUnknown) {
			continue // running it twice changes nothing
		}
		if err == nil {
			s.wasDown, err = s.clock.Resume(ctx, db, last, options.Downtime, options.Exclusive)
		}
		if err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
		return s, nil
	}
}

// ID identifies the store. It never changes.
func (s *Store) ID() string { return s.id }

// MaxQueueBytes is the bound of every queue, 0 for none.
func (s *Store) MaxQueueBytes() int64 { return s.maxQueueBytes }

// Process is the name of this process among those that have the store open.
func (s *Store) Process() string { return hex.EncodeToString(s.process[:]) }

// othersBeat is for how long a heartbeat, which comes every second, says that a process has the store open.
const othersBeat = 5 * time.Second

// Others returns the names of the other processes that have the store open, and whether these are all. One that did not commit
// for some seconds is none of them.
func (s *Store) Others(r kv.Reader) (names []string, all bool, err error) {
	if s.exclusive {
		return nil, true, nil
	}
	now, err := s.clock.At(r)
	if err != nil {
		return nil, false, err
	}
	others, all, err := s.sessions.Others(r, now-int64(othersBeat))
	for _, name := range others {
		names = append(names, hex.EncodeToString(name))
	}
	return names, all, err
}

// Secret is the store's key for authenticating lease tokens, the same in every
// process that opens the store.
func (s *Store) Secret() []byte { return s.secret }

// Session runs transactions that take effect exactly once, one at a time. Its method Update runs a
// function, perhaps several times, and commits the writes of one run. It returns kv.ErrUnknown only
// when the store stays unavailable for ten seconds. Release gives the session back.
//
// A store may not know whether a transaction committed. Each attempt therefore writes its number to
// a row of the session, in the same transaction. After an unknown result the session reads the row.
type Session = session.Session

// Session returns a session for exclusive use until it is released.
func (s *Store) Session() *Session { return s.sessions.Session() }

// RetireSessions clears the sessions of processes without a heartbeat for an hour, in
// one bounded transaction that starts at the given row. It returns the row at which
// the next one has to start, nil after the last one.
func (s *Store) RetireSessions(ctx context.Context, from []byte) (next []byte, err error) {
	return s.sessions.Retire(ctx, from, s.clock.At)
}

// Time is this process's estimate of store time, for what needs no transaction.
// Processes that commit agree on it to about a second.
func (s *Store) Time() time.Duration { return time.Duration(s.clock.Now()) }

// Display turns a store time, such as [StoredItem.Due], into the time of day by
// this process's wall clock.
func (s *Store) Display(due int64) time.Time { return s.clock.Display(due) }

// View runs fn on one consistent state of the store.
func (s *Store) View(ctx context.Context, fn func(kv.Reader) error) error {
	return s.db.View(ctx, fn)
}

// FormatVersion is the layout of the rows that this version reads and writes.
const FormatVersion = 1

// load reads the rows that identify the store, and writes them into an empty one. It
// returns store time as it was last written.
func (s *Store) load(tx kv.Tx, fresh [48]byte) (storetime.Record, error) {
	rows, err := tx.GetAll([][]byte{row(spaceFormat), row(spaceSecret), row(spaceTime), row(spaceWall)})
	if err != nil {
		return storetime.Record{}, err
	}
	format, secret, now, wall := rows[0], rows[1], rows[2], rows[3]
	if format == nil {
		foreign, err := tx.Range([]byte{0x00}, []byte{0xff}, kv.RangeOptions{Limit: 1})
		if err != nil {
			return storetime.Record{}, err
		}
		if len(foreign) > 0 {
			return storetime.Record{}, fmt.Errorf("%w: there is data, but no format version: expected an empty key space or a pqbridge store", ErrFormat)
		}
		format = tuple.AppendString(tuple.AppendInt(nil, FormatVersion), hex.EncodeToString(fresh[:16]))
		secret = fresh[16:]
		now = kv.EncodeInteger(uint64(s.clock.Wall().UnixNano()))
		tx.Set(row(spaceFormat), format)
		tx.Set(row(spaceSecret), secret)
		tx.Set(row(spaceTime), now)
		tx.Set(row(spaceWall), now)
	}
	version, rest, err := tuple.ConsumeInt(format)
	if err != nil {
		return storetime.Record{}, fmt.Errorf("%w: the version row is damaged: %w", ErrFormat, err)
	}
	if version > FormatVersion {
		return storetime.Record{}, fmt.Errorf("%w: a newer program wrote the store: it has version %d, and this program reads and writes %d. Open it with that version or a later one", ErrFormat, version, FormatVersion)
	}
	if version != FormatVersion {
		return storetime.Record{}, fmt.Errorf("%w: the store has version %d, this program reads and writes %d", ErrFormat, version, FormatVersion)
	}
	if s.id, _, err = tuple.ConsumeString(rest); err != nil {
		return storetime.Record{}, fmt.Errorf("%w: the version row is damaged: %w", ErrFormat, err)
	}
	s.secret = secret
	return storetime.Record{StoreTime: int64(kv.DecodeInteger(now)), Wall: int64(kv.DecodeInteger(wall))}, nil
}

// Queue is one queue of a store. Its methods work inside a transaction of the caller
// and take effect when it commits.
type Queue struct {
	store *Store
	name  string
	work  *Work // which several operations share; nil: each has its own
	full  error // why no new items are added; nil: they are

	making func() error // why the queue is not made now; nil: it is
}

// A queue may belong to a tenant: its name is then that of the tenant, a dot, and its own. What names
// another queue, in a configuration or in a dead letter, has that queue's own name, and means
// one of the same tenant.

// tenantOf returns the tenant of a queue, "" if it has none.
func tenantOf(queue string) string { return queue[:max(0, strings.LastIndexByte(queue, '.'))] }

// ownName returns the name of a queue without its tenant.
func ownName(queue string) string { return queue[strings.LastIndexByte(queue, '.')+1:] }

// beside returns the name of the queue that the tenant of a queue calls own.
func beside(queue, own string) string { return queue[:len(queue)-len(ownName(queue))] + own }

// Making returns a handle that makes the queue only if may returns nil; otherwise requests that would
// make it fail with that error. Nothing is asked where the queue counts with one that exists, see [CountsWith].
func (q Queue) Making(may func() error) Queue {
	q.making = may
	return q
}

// Full returns a handle with which pushes and imports add no new items: they are refused for
// the reason. One that is repeated still finds its item, and one whose content takes the
// place of no less, of an item that it hands over or replaces, is accepted.
func (q Queue) Full(reason error) Queue {
	q.full = reason
	return q
}

// Queue returns a handle for the queue with this name, which need not exist.
func (s *Store) Queue(name string) Queue {
	return Queue{store: s, name: name}
}

// Name returns the queue's name.
func (q Queue) Name() string { return q.name }

// QueuesBetween returns the names of existing queues that may have rows from the
// first key to the last.
func (s *Store) QueuesBetween(r kv.Reader, first, last []byte) ([]string, error) {
	var between []string
	for after := ""; ; {
		names, err := s.Queues(r, after, queuesPerRead)
		if err != nil || len(names) == 0 {
			return between, err
		}
		for _, name := range names {
			for _, kind := range rowKinds {
				begin, end := allRows(kind.space, name)
				if kind.lasts != ofStore && bytes.Compare(begin, last) <= 0 && bytes.Compare(first, end) < 0 {
					between = append(between, name)
					break
				}
			}
		}
		after = names[len(names)-1]
	}
}

// Queues returns up to limit names of existing queues in their order, starting after
// the given name.
func (s *Store) Queues(r kv.Reader, after string, limit int) ([]string, error) {
	prefix := tuple.AppendString(nil, spaceState)
	begin, end := tuple.Range(prefix)
	if after != "" {
		begin = append(queueRow(spaceState, after), 0)
	}
	var names []string
	for most, more := min(limit, queuesPerRead), true; more && len(names) < limit; {
		page, err := r.Range(begin, end, kv.RangeOptions{Limit: most})
		if err != nil {
			return nil, err
		}
		for _, pair := range page {
			name, _, err := tuple.ConsumeString(pair.Key[len(prefix):])
			if err != nil {
				return nil, fmt.Errorf("damaged queue name: %w", err)
			}
			state, _, err := parseStateHead(pair.Value)
			if err != nil {
				return nil, fmt.Errorf("queue %q: %w", name, err)
			}
			if state.exists() && len(names) < limit {
				names = append(names, name)
			}
		}
		if more = len(page) == most; more {
			begin = append(page[len(page)-1].Key, 0)
		}
	}
	return names, nil
}

// queuesPerRead has room for the longest page that a bridge shows, and the name behind it.
const queuesPerRead = MaxBatch + 1

// Arrivals returns a watch that fires when an item of the queue becomes ready.
// Created in the transaction that found no item, it misses none.
func (q Queue) Arrivals(tx kv.Tx) *kv.Watch {
	return tx.Watch(queueRow(spaceArrivals, q.name))
}
