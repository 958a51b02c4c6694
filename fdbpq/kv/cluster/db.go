package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/takeover"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// Options configure a member.
type Options struct {
	// Name is the member's own, the same after each start.
	Name string

	// Members are the names of all, if they are known. They may make the log of a new
	// store as soon as all of them say that they have none.
	Members []string

	// Version is the version of the program; the other members show it.
	Version string

	// Init lets this member make the log of a new store, if there is no log and it
	// has no copy of one.
	Init bool

	// DiskFull says why this member's disk should take no new items, or nil. It is called
	// once a second. nil: the disk always has room.
	DiskFull func() error

	// LogReplica is for a log of which each of Members has a part on its disk. It says why this disk lacks entries
	// of a generation of the log up to the given entry, or nil. A takeover then needs a majority of members with
	// sound disks. nil: the disks of members have only copies.
	LogReplica func(generation, entry uint64) error

	// Apart is called in a term, at its beginning and every few seconds, while no append is under way and the disks
	// of all Members have the log. It may make another member lead the log, so that the active member and the
	// leader are on different machines: if one machine had both and died, the others could take over only after an
	// election. nil: nothing is called.
	Apart func(ctx context.Context, others []string)

	// Silence is how long two members must not have heard another one to take it for lost. It should be the same for
	// all. 0: the default.
	Silence time.Duration

	// Replica are the options of the copy.
	Replica local.Options
}

// DB is a member of the cluster. It follows the log, and becomes active when no other
// member is.
type DB struct {
	options Options
	dir     string
	logs    Log // of any generation
	members Members
	slog    *slog.Logger
	process chain.ID

	current atomic.Pointer[Log] // of the generation that the copy follows
	replica atomic.Pointer[local.Replica]
	archive archive
	peers   *peers.Peers
	ledger  ledger
	status  status
	tail    tail       // of the goroutine run alone
	saved   peers.Mark // on the disk; of the goroutine syncReplica alone

	warnOfTwin sync.Once

	stop        context.CancelFunc
	done        sync.WaitGroup
	wake        chan struct{} // holds a token when the log may have grown
	hint        chan struct{} // holds a token when the others should hear of a change
	unsubscribe func()        // ends messages to this member
}

// Open opens the member whose copy is in dir, and starts it. It makes the copy if there
// is none.
func Open(dir string, log Log, members Members, o Options) (*DB, error) {
	o.Silence = cmp.Or(o.Silence, peers.DefaultSilence)
	d := &DB{
		options: o, dir: filepath.Clean(dir), logs: log, members: members, slog: o.Replica.Log,
		peers: peers.New(o.Name, o.Silence),
		wake:  make(chan struct{}, 1),
		hint:  make(chan struct{}, 1),
	}
	if d.slog == nil {
		d.slog = slog.Default()
	}
	if o.Name == "" {
		return nil, errors.New("kv/cluster: a member needs a name")
	}
	if _, err := rand.Read(d.process[:]); err != nil {
		return nil, err
	}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("kv/cluster: %w", err)
	}
	err := d.loadMark()
	if err == nil && o.LogReplica != nil {
		err = claimKeeper{d}.load()
	}
	if err == nil {
		err = d.start()
	}
	if err != nil {
		return nil, fmt.Errorf("kv/cluster: %w", errors.Join(err, d.copy().Close()))
	}
	return d, nil
}

// open opens the copy, or the checkpoint that was fetched in its place.
func (d *DB) open() error {
	d.archive.forget() // opening the copy removes it
	if err := local.Adopt(d.dir, d.options.Replica); err != nil {
		return err
	}
	replica, err := local.OpenReplica(d.dir, d.options.Replica)
	if err != nil {
		return err
	}
	var h chain.Head
	position, err := replica.Position()
	if err == nil {
		h, err = chain.DecodeHead(position)
	}
	if err == nil && position == nil {
		err = expectEmpty(replica)
	}
	if err != nil {
		return errors.Join(err, replica.Close())
	}
	d.replica.Store(replica)
	d.enter(h)
	return nil
}

// expectEmpty refuses a copy without a position that has rows: the others would not get
// them from the log.
func expectEmpty(replica *local.Replica) error {
	return replica.View(context.Background(), func(r kv.Reader) error {
		rows, err := r.Range(nil, bytes.Repeat([]byte{0xff}, kv.MaxKeySize), kv.RangeOptions{Limit: 1})
		if err == nil && len(rows) > 0 {
			err = errors.New("this is a store of one process, not a copy of a store that several keep: expected a copy, or an empty directory; export and import move items")
		}
		return err
	})
}

// enter goes on behind h, the position of the copy.
func (d *DB) enter(h chain.Head) {
	log := d.logs.Generation(max(h.Generation, chain.FirstGeneration))
	d.current.Store(&log)
	d.tail = tail{head: h}
	d.status.opened(h)
}

func (d *DB) copy() *local.Replica { return d.replica.Load() }

// log is the log of the generation that the copy follows.
func (d *DB) log() Log { return *d.current.Load() }

// start starts what runs in the background.
func (d *DB) start() (err error) {
	d.unsubscribe, err = d.members.Listen(d.options.Name, d.hear, checkpoints{d}.answer)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.stop = cancel
	work := []func(context.Context){d.run, d.sendHeartbeats, lookout{d}.watch, upkeep{d}.syncReplica, upkeep{d}.truncate, disks{d}.watch}
	if d.options.LogReplica != nil {
		work = append(work, claimKeeper{d}.keep)
	}
	for _, work := range work {
		d.done.Go(func() { work(ctx) })
	}
	return nil
}

// Term waits until this member is active, and returns the term. Each term is returned
// by one call.
func (d *DB) Term(ctx context.Context) (*Term, error) {
	for {
		term, changed := d.status.take()
		if term != nil {
			return term, nil
		}
		select {
		case <-changed:
			if d.status.closed() {
				return nil, kv.ErrClosed
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Current returns the term of this member while it is active, and otherwise nil.
func (d *DB) Current() *Term { return d.status.current() }

// Fill is the part of the log's room that is taken, from 0 to 1, as far as this member knows; 0 if there is no
// limit.
func (d *DB) Fill() float64 { return d.status.fill() }

// Peek runs fn on the present copy, which may lag behind the log, whatever the role of this member.
func (d *DB) Peek(ctx context.Context, fn func(kv.Reader) error) error {
	return d.copy().View(ctx, fn)
}

// Backup copies the copy of this member, while it is in use, into dir, which must not exist. A member opens the
// backup as a copy: it goes on with the log or, if the log is gone, in a new generation.
func (d *DB) Backup(dir string) error { return d.copy().Backup(dir) }

// Damage is the damage found in the files of the copy since it was opened.
func (d *DB) Damage() []local.Damage { return d.copy().Damage() }

// release is a request to step down.
type release struct {
	successor string
	done      chan error
}

// ErrNotActive: the member is not the active one.
var ErrNotActive = errors.New("kv/cluster: this member is not active")

// ErrNoSuccessor: no other member can take over.
var ErrNoSuccessor = errors.New("kv/cluster: no other member can take over")

// Successor returns the follower that takes over when this member releases the store: the named one or, if name is
// empty, the one whose copy is furthest. ErrNoSuccessor means that the follower was not heard lately, or
// cannot become active.
func (d *DB) Successor(name string) (string, error) {
	all, _ := d.peers.Heard()
	if name = takeover.Successor(name, all, d.options.unconfirmed(), time.Now()); name == "" {
		return "", ErrNoSuccessor
	}
	return name, nil
}

// Keepers are the other members that run and whose disks have the log. If the server of any other member led the
// log, acknowledged entries could be missing.
func (d *DB) Keepers() (names []string) {
	all, _ := d.peers.Heard()
	for _, p := range all {
		if p.Member != d.options.Name && p.Runs(d.options.unconfirmed(), time.Now()) && !p.Lost && p.HasLog(d.options.Members) {
			names = append(names, p.Member)
		}
	}
	return names
}

// Release steps down in favour of a member, or of the one whose copy is furthest if
// successor is empty. Transactions that have not been sent to the log fail with
// ErrUnavailable, so the caller drains the term before.
func (d *DB) Release(ctx context.Context, successor string) error {
	r := &release{successor: successor, done: make(chan error, 1)}
	if err := d.status.ask(r); err != nil {
		return err
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// releaseFor is how long Close tries to write a release to the log. Without it the others wait as for a member that
// died.
const releaseFor = 2 * time.Second

// Close steps down, ends the member and releases the copy. It waits for transactions
// under way.
func (d *DB) Close() error {
	if !d.status.close() {
		return kv.ErrClosed
	}
	if term := d.status.current(); term != nil {
		_ = term.Close() // it may have been closed before
		ctx, cancel := context.WithTimeout(context.Background(), releaseFor)
		if err := d.Release(ctx, ""); err != nil {
			d.slog.Warn("kv/cluster: writing the release into the log failed: a takeover waits for silence", "err", err)
		}
		cancel()
	}
	d.stop()
	d.done.Wait() // no other heartbeat follows
	d.broadcast(peers.Heartbeat{Gone: true})
	return d.end()
}

// Abandon ends the member without a release and a last message, as a crash of its process
// would.
func (d *DB) Abandon() error {
	if !d.status.close() {
		return kv.ErrClosed
	}
	return d.end()
}

func (d *DB) end() error {
	d.stop()
	d.unsubscribe()
	d.done.Wait()
	return d.copy().Close()
}
