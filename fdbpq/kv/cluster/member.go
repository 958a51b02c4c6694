package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/claims"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// member has what the parts of a member share: its copy and its log, what it knows of itself and of the others, and the
// ways to wake it and to tell the others.
type member struct {
	options Options
	dir     string
	logs    Log // of any generation
	members Members
	slog    *slog.Logger
	process chain.ID

	current atomic.Pointer[Log] // of the generation that the copy follows
	replica atomic.Pointer[local.Replica]
	peers   *peers.Peers
	ledger  ledger
	self    self

	partless struct {
		is    atomic.Bool // there is a copy, and this disk has no part of the log
		since time.Time   // when that was seen first; of the goroutine that keeps claims alone
	}

	done sync.WaitGroup // what runs in the background
	wake chan struct{}  // holds a token when the log may have grown
	hint chan struct{}  // holds a token when the others should hear of a change
}

func (m *member) copy() *local.Replica { return m.replica.Load() }

// log is the log of the generation that the copy follows.
func (m *member) log() Log { return *m.current.Load() }

// position is that of the copy, and first the first entry of the log, as it was seen last.
func (m *member) position() (at chain.Head, first uint64) {
	now := m.self.now()
	return now.head, now.log.First
}

// announce makes a heartbeat leave soon, because the state has changed.
func (m *member) announce() { signal(m.hint) }

// newest is the newest generation that has a log.
func (m *member) newest(ctx context.Context) (generation uint64, err error) {
	err = attempt(ctx, func(ctx context.Context) error {
		generation, err = m.logs.Newest(ctx)
		return err
	})
	return generation, err
}

// Members carries messages between the members of a cluster. A message may get lost,
// come late, twice, or in another order: nothing but liveness depends on it.
type Members interface {
	// Listen registers the receiver of messages: hear gets messages that others broadcast, answer the requests to the
	// member of this name. The functions may be called from any goroutine, and must return soon. stop ends it, and
	// waits for calls under way.
	Listen(name string, hear func(message []byte), answer func(request []byte) (reply []byte)) (stop func(), err error)

	// Broadcast sends a message to all other members, and does not wait until it is
	// delivered. The sender may hear it as well.
	Broadcast(message []byte) error

	// Ask sends a request to one member and returns its reply.
	Ask(ctx context.Context, member string, request []byte) (reply []byte, err error)

	// MaxMessage is how many bytes a message, a request or a reply may have.
	MaxMessage() int
}

// announceEvery is the time within which a change is announced.
const announceEvery = 5 * time.Millisecond

// announcer tells the others of this member.
type announcer struct{ *member }

// run broadcasts the state of this member until ctx ends.
func (a announcer) run(ctx context.Context) {
	ticker := time.NewTicker(a.options.beat())
	defer ticker.Stop()
	for {
		a.broadcast(peers.Heartbeat{})
		if pause(ctx, announceEvery) != nil {
			return
		}
		select {
		case <-a.hint:
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// broadcast sends the state of this member, with Poll or Gone if kind says so.
func (a announcer) broadcast(kind peers.Heartbeat) {
	h := a.self.now().heartbeat(time.Now())
	h.Process, h.Silent = a.process.String(), a.peers.Silent()
	h.Member, h.Version, h.Poll, h.Gone = a.options.Name, a.options.Version, kind.Poll, kind.Gone
	h.Sheds = h.Role == peers.Active && a.options.Sheds != nil && a.options.Sheds()
	if m := a.peers.Mark(h.Store); m.Entry > 0 {
		h.Mark = &m
	}
	if a.options.LogReplica != nil {
		claims := a.ledger.read()
		h.Claim, h.Knows = &claims.Own, claims.Others
		h.Partless = a.partless.is.Load()
	}
	message, err := json.Marshal(h)
	if err == nil {
		err = a.members.Broadcast(message)
	}
	if err != nil {
		a.slog.Debug("kv/cluster: sending a heartbeat failed", "err", err)
	}
}

// listener takes what the others say.
type listener struct {
	*member
	warnOfTwin sync.Once
}

// hear takes a heartbeat of another member.
func (l *listener) hear(message []byte) {
	h, ok := l.peers.Hear(message)
	if h.Member == l.options.Name && h.Process != "" && h.Process != l.process.String() {
		l.warnOfTwin.Do(func() {
			l.slog.Error("kv/cluster: another process has the name of this member: expected a unique name for each", "name", h.Member)
		})
	}
	if !ok {
		return
	}
	if h.Poll {
		announcer{l.member}.broadcast(peers.Heartbeat{})
	}
	alive := h.ShowsLife(l.self.now().head)
	if alive {
		l.self.alive()
	}
	l.ledger.heard(h, l.options.Name, alive)
	if h.Entry > l.self.now().head.Entry {
		signal(l.wake)
	}
}

// ledger has the claims on a member's disk.
type ledger struct {
	mu      sync.Mutex
	written claims.Ledger
	target  chain.Head // of an active member after the start; Entry 0: none was heard
}

// read returns the claims on the disk.
func (l *ledger) read() claims.Ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// aim is the position of an active member after the start.
func (l *ledger) aim() chain.Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.target
}

// heard takes the claims in the heartbeat of another member; name is that of this one.
func (l *ledger) heard(h peers.Heartbeat, name string, alive bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := &l.written.Own
	if mine := h.Knows[name]; own.Lives && mine.ID == own.ID && mine.Count > own.Count {
		// The whole machine has gone back while this process ran.
		own.Lives, l.target = false, chain.Head{}
	}
	if alive && l.target.Entry == 0 {
		l.target = chain.Head{Entry: h.Entry, Generation: h.Generation}
	}
}

// markSuffix ends the name of the file beside the copy.
const markSuffix = ".furthest"

// furthest keeps the mark on the disk.
type furthest struct {
	*member
	saved peers.Mark // on the disk; of the goroutine that syncs the copy alone
}

// load reads the mark that an earlier process left.
func (f *furthest) load() error {
	var m peers.Mark
	content, err := local.ReadNote(f.dir, markSuffix, f.options.Replica)
	if err == nil && content != nil {
		err = json.Unmarshal(content, &m)
	}
	if err != nil {
		name := f.dir + markSuffix
		return fmt.Errorf("%s: expected what this program wrote: while all other members run, move %s away, and start this one: without the file an entry may be forgotten that only a lost member had: %w", name, name, err)
	}
	if content == nil {
		return nil
	}
	f.peers.Note(m)
	f.saved = m
	return nil
}

// save writes the mark, unless the copy on this disk is as far.
func (f *furthest) save() {
	own := f.self.now().heartbeat(time.Now())
	m := f.peers.Mark(own.Store)
	if m == f.saved || !m.Follows(peers.Mark{Generation: own.Generation, Entry: own.Synced}) {
		return
	}
	content, err := json.Marshal(m)
	if err == nil {
		err = local.WriteNote(f.dir, markSuffix, content, f.options.Replica)
	}
	if err != nil {
		f.slog.Error("kv/cluster: writing the others' furthest entry failed", "err", err)
		return
	}
	f.saved = m
}
