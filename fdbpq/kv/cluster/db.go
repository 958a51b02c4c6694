package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/checkpoint"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// DB is a member of the cluster. It follows the log, and becomes active when no other
// member is.
type DB struct {
	*member
	tail     *tail // of the goroutine that follows the log, once that runs
	archive  *checkpoint.Archive
	furthest *furthest

	stop        context.CancelFunc
	unsubscribe func() // ends messages to this member
}

// Open opens the member whose copy is in dir, and starts it. It makes the copy if there
// is none.
func Open(dir string, log Log, members Members, o Options) (*DB, error) {
	o.Silence = cmp.Or(o.Silence, Silence)
	m := &member{
		options: o, dir: filepath.Clean(dir), logs: log, members: members, slog: o.Replica.Log,
		peers: peers.New(o.Name, o.Silence),
		wake:  make(chan struct{}, 1),
		hint:  make(chan struct{}, 1),
	}
	if m.slog == nil {
		m.slog = slog.Default()
	}
	if o.Name == "" {
		return nil, errors.New("kv/cluster: a member needs a name")
	}
	if _, err := rand.Read(m.process[:]); err != nil {
		return nil, err
	}
	archive := checkpoint.NewArchive(checkpoint.Owner{
		Copy: m.copy, Position: m.position, MaxReply: members.MaxMessage, Background: m.done.Go, Log: m.slog,
	})
	d := &DB{member: m, archive: archive, furthest: &furthest{member: m}}
	d.tail = &tail{member: m, archive: archive}
	if err := d.tail.open(); err != nil {
		return nil, fmt.Errorf("kv/cluster: %w", err)
	}
	err := d.furthest.load()
	if err == nil && o.LogReplica != nil {
		err = claimKeeper{m}.load()
	}
	if err == nil {
		err = d.start()
	}
	if err != nil {
		return nil, fmt.Errorf("kv/cluster: %w", errors.Join(err, d.copy().Close()))
	}
	return d, nil
}

// start starts what runs in the background.
func (d *DB) start() (err error) {
	m := d.member
	listens := &listener{member: m}
	d.unsubscribe, err = m.members.Listen(m.options.Name, listens.hear, d.archive.Answer)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.stop = cancel
	syncs := syncer{member: m, archive: d.archive, furthest: d.furthest}
	work := []func(context.Context){follower{d.tail}.run, announcer{m}.run, lookout{m}.watch, syncs.run, logRoom{m}.run, disks{m}.watch}
	if m.options.LogReplica != nil {
		work = append(work, claimKeeper{m}.keep)
	}
	for _, work := range work {
		m.done.Go(func() { work(ctx) })
	}
	return nil
}

// Term waits until this member is active, and returns the term. Each term is returned
// by one call.
func (d *DB) Term(ctx context.Context) (*Term, error) {
	for {
		term, changed := d.self.take()
		if term != nil {
			return term, nil
		}
		select {
		case <-changed:
			if d.self.closed() {
				return nil, kv.ErrClosed
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Current returns the term of this member while it is active, and otherwise nil.
func (d *DB) Current() *Term { return d.self.current() }

// Status returns the present status.
func (d *DB) Status() Status { return statusOf(d.member) }

// Changed returns a channel that is closed when the role of this member, or its reason, changes.
func (d *DB) Changed() <-chan struct{} { return d.self.changes() }

// Fill is the part of the log's room that is taken, from 0 to 1, as far as this member knows; 0 if there is no
// limit.
func (d *DB) Fill() float64 { return d.self.now().fill() }

// DiskFull says why the store should take no new items because of disks, or nil: this member's disk is nearly full,
// or so many other disks are that the log may soon take nothing.
func (d *DB) DiskFull() error { return d.self.now().full.why }

// Spare returns how many bytes the spare file of the copy has, and how many it is to have.
func (d *DB) Spare() (has, want int64) { return d.copy().Spare() }

// KeepSpare makes the spare file of the copy, unless it is there.
func (d *DB) KeepSpare() error { return d.copy().KeepSpare() }

// GiveUpSpare removes the spare file of the copy, for what else writes to its disk, such as the log.
func (d *DB) GiveUpSpare() error { return d.copy().GiveUpSpare() }

// Refuses notes that the machine of a member refuses connections, so that its process has ended. It holds until the
// member is heard again.
func (d *DB) Refuses(member string) { d.peers.Refuse(member) }

// Lost are the members that are lost now, and rank is how many members come before this one to replace what a lost
// one did. ok is false if so many members are lost that nothing can replace them.
func (d *DB) Lost() (lost []string, rank int, ok bool) {
	t := lookout{d.member}.turn()
	return t.Lost, t.Rank, t.OK
}

// Peek runs fn on the present copy, which may lag behind the log, whatever the role of this member.
func (d *DB) Peek(ctx context.Context, fn func(kv.Reader) error) error {
	return d.copy().View(ctx, fn)
}

// Backup copies the copy of this member, while it is in use, into dir, which must not exist. A member opens the
// backup as a copy: it goes on with the log or, if the log is gone, in a new generation.
func (d *DB) Backup(dir string) error { return d.copy().Backup(dir) }

// Damage is the damage found in the files of the copy since it was opened.
func (d *DB) Damage() []local.Damage { return d.copy().Damage() }

// Successor returns the follower that takes over when this member releases the store: the named one or, if name is
// empty, the one whose copy is furthest. ErrNoSuccessor means that the follower was not heard lately, or
// cannot become active.
func (d *DB) Successor(name string) (string, error) { return lookout{d.member}.successor(name) }

// Sheds reports whether the active member refuses large requests unread, if that is another member that was heard lately.
func (d *DB) Sheds() bool { return d.peers.Sheds(d.self.now().head) }

// Keepers are the other members that run and whose disks have the log. If the server of any other member led the
// log, acknowledged entries could be missing.
func (d *DB) Keepers() (names []string) { return lookout{d.member}.keepers() }

// Release steps down in favour of a member, or of the one whose copy is furthest if
// successor is empty. Transactions that have not been sent to the log fail with
// ErrUnavailable, so the caller drains the term before.
func (d *DB) Release(ctx context.Context, successor string) error {
	r := &release{successor: successor, done: make(chan error, 1)}
	if err := d.self.ask(r); err != nil {
		return err
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// PlanRecovery returns the recovery that Recover would make now. An error says why none is
// needed or possible.
func (d *DB) PlanRecovery(ctx context.Context, c Consent) (Recovery, error) {
	return recoveries{d.member}.plan(ctx, c)
}

// Recover ends the log, and begins a new generation with the copy that the plan names. All members go over to it.
// An interrupted call can be repeated. If two run at the same time, one begins the generation, and the other
// returns an error.
func (d *DB) Recover(ctx context.Context, c Consent) (Recovery, error) {
	return recoveries{d.member}.recover(ctx, c)
}

// releaseFor is how long Close tries to write a release to the log. Without it the others wait as for a member that
// died.
const releaseFor = 2 * time.Second

// Close steps down, ends the member and releases the copy. It waits for transactions
// under way.
func (d *DB) Close() error {
	if !d.self.close() {
		return kv.ErrClosed
	}
	if term := d.self.current(); term != nil {
		_ = term.Close() // it may have been closed before
		ctx, cancel := context.WithTimeout(context.Background(), releaseFor)
		if err := d.Release(ctx, ""); err != nil {
			d.slog.Warn("kv/cluster: writing the release into the log failed: a takeover waits for silence", "err", err)
		}
		cancel()
	}
	d.stop()
	d.done.Wait() // no other heartbeat follows
	announcer{d.member}.broadcast(peers.Heartbeat{Gone: true})
	return d.end()
}

// Abandon ends the member without a release and a last message, as a crash of its process
// would.
func (d *DB) Abandon() error {
	if !d.self.close() {
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

// Silence is the default of Options.Silence.
//
// A member is lost when its machine refuses connections, or when two members that run have not heard it for their
// limit. To take a member for lost costs at most a candidacy, never safety: only the log decides who may write. The
// limit is Options.Silence. It grows with the gaps that the other member's heartbeats had lately.
const Silence = 500 * time.Millisecond

const (
	// beatsInSilence is how many heartbeats a limit has.
	beatsInSilence = 5

	// unconfirmedFor is how long a member waits at least for a sign of life of an active member that is not lost
	// before it becomes a candidate; after a failure it waits longer.
	unconfirmedFor = 1500 * time.Millisecond
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

	// Sheds reports whether this member refuses large requests unread, while it is active. It is called for each
	// heartbeat. nil: it never does.
	Sheds func() bool

	// LogReplica is for a log of which each of Members has a part on its disk. It says why this disk lacks entries
	// of a generation of the log up to the given entry, or nil, and ErrNoPart if it has no part at all. A takeover then
	// needs a majority of members with sound disks. nil: the disks of members have only copies.
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

// beat is the time between heartbeats.
func (o *Options) beat() time.Duration { return o.Silence / beatsInSilence }

// unconfirmed is how long a member must be silent if no other member confirms its silence.
func (o *Options) unconfirmed() time.Duration { return max(unconfirmedFor, 3*o.Silence) }

// errStop: the copy and the log do not belong together, or this version cannot read the
// log. The member serves nothing until an operator has looked.
var errStop = errors.New("this member must not go on")

// errEntry: like errStop, because of an entry that does not continue the copy. The entry may be read correctly
// later: the server that has it may be damaged, or this program too old.
var errEntry = fmt.Errorf("%w", errStop)

// errEnded: no entry follows in this generation of the log.
var errEnded = errors.New("this generation of the log has ended")

// errLost: this member did not become active. It tries again after a while.
var errLost = errors.New("not active")
