package fdbpq

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
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
)

// Options are settings for Open. The zero value suits most programs.
type Options struct {
	// RefuseUnknown makes pushes to a queue that does not exist fail with ErrNoQueue.
	// Then only Configure makes queues.
	RefuseUnknown bool

	// Exclusive says that no other process can have the store open. So Open need not watch
	// for other processes, and no process waits for the end of another's term.
	Exclusive bool

	// Strict has all queues be strict, whatever their configurations say. It is for an
	// engine whose transactions take no longer than a moment: there, a pop that runs again
	// costs little.
	Strict bool

	// MaxQueueBytes bounds every queue as Config.MaxBytes does, and its results as Config.ResultBytes does, neither of which may
	// exceed it. 0: no bound.
	MaxQueueBytes int64

	// Full returns the reason why the store has no room to grow by some bytes, nil while it has room: then they count until the
	// next look at the disk. Without room, items do not remember how their leases end, few new ids are remembered, and an item
	// that dies waits in its queue, dead, until it may be written again as a dead letter. New items are the caller's to refuse,
	// by [Queue.Full]. A store without this function always has room.
	Full func(bytes int64) error

	// Low returns the reason why only the last of the room is left, nil while there is more. Then no item is written again: a
	// settlement that would keep its item in the queue is ErrNoRoom, and leases that run out and delays that are over wait.
	Low func() error

	// Followed says that another process may take over from this one at any moment, with its
	// Downtime. So each transaction that writes anything writes store time, too, and the other
	// process goes on behind all times that this one has used. Otherwise store time is written
	// once a second.
	Followed bool

	// Downtime is how long before Open the store was last written to, if the caller knows that
	// by a monotonic clock. Open adds it to store time and asks no wall clock: the last writer
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
	inside        inside.Store
	id            string
	secret        []byte
	refuseUnknown bool
	strict        bool
	maxQueueBytes int64
	maxKeysOwing  int64
	maxKeysSet    int64
	inline        int64 // bytes of content that the row of an item has at most
	room          room
	wasDown       bool // Open added a downtime: due timers wait for grace
	sessions      *session.Pool
	queueStates   queueStates
	alarm         alarm
	passedOver    passedTimers
	marks         useMarks
	presence      presence
}

// Open opens the store in db, and makes one when db is empty. The caller closes db.
//
// Open adds the time in which no process ran to store time. Unless the options say
// Exclusive, it may first watch for up to three seconds whether other processes run.
func Open(ctx context.Context, db kv.DB, options Options) (*Store, error) {
	s := &Store{
		inside:        inside.Store{Exclusive: options.Exclusive},
		refuseUnknown: options.RefuseUnknown, strict: options.Strict, maxQueueBytes: options.MaxQueueBytes,
		maxKeysOwing: MaxKeysOwing, maxKeysSet: MaxKeysSet, inline: int64(min(layout.MaxInline, kv.BriefOf(db))),
	}
	clocks := storetime.Clocks{Wall: options.Wall, Elapsed: options.Elapsed, Wait: options.Wait}
	s.inside.Clock = storetime.New(layout.Row(layout.SpaceTime), layout.Row(layout.SpaceWall), clocks)
	s.room.why, s.room.low, s.room.most = options.Full, options.Low, spareBytes
	if s.inside.DB = db; options.Followed {
		s.inside.DB = s.inside.Clock.Stamp(db)
	}
	begun := s.inside.Clock.Elapsed()
	s.alarm.init()
	if _, err := rand.Read(s.inside.Process[:]); err != nil {
		return nil, err
	}
	s.sessions = session.NewPool(s.inside.DB, layout.Row(layout.SpaceSession), s.inside.Process[:])
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
			continue // a second run has no further effect
		}
		if err == nil {
			if before := options.Downtime; before != nil {
				options.Downtime = new(*before + s.inside.Clock.Elapsed() - begun)
			}
			s.wasDown, err = s.inside.Clock.Resume(ctx, db, last, options.Downtime, options.Exclusive)
		}
		if err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
		s.presence.began.Store(s.inside.Clock.Now())
		return s, nil
	}
}

// Inside is for packages beside this one, which alone can name its type.
func (s *Store) Inside() *inside.Store { return &s.inside }

// ID identifies the store. It never changes.
func (s *Store) ID() string { return s.id }

// MaxQueueBytes is the bound of every queue, 0 without a bound.
func (s *Store) MaxQueueBytes() int64 { return s.maxQueueBytes }

// maxBytes is the bound that holds for a queue, 0 without a bound.
func (s *Store) maxBytes(c *Config) int64 {
	if c.MaxBytes == 0 || s.maxQueueBytes == 0 {
		return max(c.MaxBytes, s.maxQueueBytes)
	}
	return min(c.MaxBytes, s.maxQueueBytes)
}

// defaultResultBytes is the bound of the results of a queue whose result_bytes is 0.
const defaultResultBytes = 64 << 20

// maxResultBytes is the bound of what results of a queue take.
func (s *Store) maxResultBytes(c *Config) int64 {
	most := cmp.Or(c.ResultBytes, defaultResultBytes)
	if s.maxQueueBytes > 0 {
		most = min(most, s.maxQueueBytes)
	}
	return most
}

// limited reports whether a push depends on how much is in the queue.
func (s *Store) limited(c *Config) bool { return c.MaxLength > 0 || s.maxBytes(c) > 0 }

// countersOf are the counters on which pushes to a queue depend.
func (s *Store) countersOf(c *Config) []int {
	if s.maxBytes(c) > 0 {
		return layout.Usage
	}
	return layout.Content
}

// Crowded has the store ask whether the owner of a queue has as many bytes as it may have. Items of such a queue remember no
// attempts that take more. The function reads nothing from the store.
func (s *Store) Crowded(owner func(queue string) bool) { s.room.owners.Store(&owner) }

// Process is the name of this process among those that have the store open.
func (s *Store) Process() string { return hex.EncodeToString(s.inside.Process[:]) }

// othersBeat is for how long a heartbeat, which comes every second, says that a process has the store open.
const othersBeat = 5 * time.Second

// Others returns the names of the other processes that have the store open, and whether these are all. A process that did not commit
// for some seconds does not count.
func (s *Store) Others(r kv.Reader) (names []string, all bool, err error) {
	if s.inside.Exclusive {
		return nil, true, nil
	}
	now, err := s.inside.Clock.At(r)
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
	return s.sessions.Retire(ctx, from, s.inside.Clock.At)
}

// Time is this process's estimate of store time, for what needs no transaction.
// Processes that commit agree on it to about a second.
func (s *Store) Time() time.Duration { return time.Duration(s.inside.Clock.Now()) }

// Display turns a store time, such as [StoredItem.Due], into the time of day by
// this process's wall clock.
func (s *Store) Display(due int64) time.Time { return s.inside.Clock.Display(due) }

// View runs fn on one consistent state of the store.
func (s *Store) View(ctx context.Context, fn func(kv.Reader) error) error {
	return s.inside.DB.View(ctx, fn)
}

// load reads the rows that identify the store, and writes them into an empty one. It
// returns store time as it was last written.
func (s *Store) load(tx kv.Tx, fresh [48]byte) (storetime.Record, error) {
	rows, err := tx.GetAll([][]byte{layout.Row(layout.SpaceFormat), layout.Row(layout.SpaceSecret), layout.Row(layout.SpaceTime), layout.Row(layout.SpaceWall)})
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
		now = kv.EncodeInteger(uint64(s.inside.Clock.Wall().UnixNano()))
		tx.Set(layout.Row(layout.SpaceFormat), format)
		tx.Set(layout.Row(layout.SpaceSecret), secret)
		tx.Set(layout.Row(layout.SpaceTime), now)
		tx.Set(layout.Row(layout.SpaceWall), now)
	}
	version, rest, err := tuple.ConsumeInt(format)
	if err != nil {
		return storetime.Record{}, fmt.Errorf("%w: the version row is damaged: %w", ErrFormat, err)
	}
	if version > FormatVersion {
		return storetime.Record{}, fmt.Errorf("%w: a newer program wrote the store: it has version %d, and this program reads and writes %d. Open it with that version or a later one", ErrFormat, version, FormatVersion)
	}
	if version != FormatVersion {
		return storetime.Record{}, fmt.Errorf("%w: an earlier program wrote the store: it has version %d, and this program reads and writes %d. Export its queues with that program (pq export), and import them into a new store (pq import)", ErrFormat, version, FormatVersion)
	}
	if s.id, _, err = tuple.ConsumeString(rest); err != nil {
		return storetime.Record{}, fmt.Errorf("%w: the version row is damaged: %w", ErrFormat, err)
	}
	s.secret = secret
	return storetime.Record{StoreTime: int64(kv.DecodeInteger(now)), Wall: int64(kv.DecodeInteger(wall))}, nil
}

// readStateRow returns a queue's state row, also of a deleted queue. The result is
// shared: copy it before changing it.
func (s *Store) readStateRow(r kv.Reader, queue string) (*queueState, error) {
	raw, err := r.Get(layout.QueueRow(layout.SpaceState, queue))
	if err != nil || raw == nil {
		return nil, err
	}
	return s.queueStates.parse(queue, raw)
}
