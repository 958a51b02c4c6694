// Package sources runs the sources of a store: it fetches messages from streams, and items from links of other stores, and pushes them.
//
// What it guarantees: it adds nothing to the queue but in a transaction that finds the source where the fetch began, and moves it on
// (fdbpq.Queue.Feed). So whatever is fetched twice, out of order, by two bridges or from a stream that lies is pushed once, or not at all. It
// acknowledges a message to the stream only behind the commit, and stops a source only by a transaction that finds it as it was.
//
// One bridge runs a source at a time, by a row that it writes every two seconds. Nothing but work depends on that.
package sources

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

// Options are what sources of a bridge need.
type Options struct {
	Store   *fdbpq.Store
	Wire    *codec.Wire
	Remotes func() map[string]Remote
	Bridge  string        // its id
	Alone   bool          // no other bridge is on the store
	Hold    time.Duration // how long a stop has to be true before it is believed; 0: Hold
	Log     *slog.Logger

	// Room says why a queue takes no new items, nil: it does. ended is called behind the transaction.
	Room func(queue string, items, bytes int) (ended func(), full error)

	Fed    func(queue string, bytes int, fed *fdbpq.Fed) // bytes are those of the messages that are done
	Event  func(protocol.SourceEvent)
	Failed func(error) // a transaction has failed
}

// Hold is how long a stop has to be true before it is believed. A leader of a stream that was cut off from the others goes on to
// answer for 20 s.
const Hold = 30 * time.Second

const (
	// lookEvery is how often a bridge looks which sources there are.
	lookEvery = 500 * time.Millisecond

	// sayEvery is how often it says that it runs one.
	sayEvery = 2 * time.Second

	// txTime is how long a transaction may take.
	txTime = 4 * time.Second
)

// Runners run sources.
type Runners struct {
	Options
	connections connections
	kick        chan struct{}
	cancel      context.CancelFunc
	done        chan struct{}
	stopped     sync.Once

	workers map[id]*worker // of the goroutine that looks
	free    map[id]bool    // nobody has run them at the last look
}

// id names a source as long as it lives.
type id struct {
	queue, name string
	born        int64
}

func idOf(s *fdbpq.Source) id { return id{s.Queue, s.Name, s.Born} }

// New returns the runners of a bridge. They run nothing before Start.
func New(o Options) *Runners {
	if o.Hold == 0 {
		o.Hold = Hold
	}
	return &Runners{Options: o, kick: make(chan struct{}, 1), workers: make(map[id]*worker), free: make(map[id]bool)}
}

// Start runs sources until Stop.
func (r *Runners) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.done = cancel, make(chan struct{})
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
}

// Stop ends what they do, and has other bridges run the sources at once.
func (r *Runners) Stop() {
	r.stopped.Do(func() {
		if r.cancel == nil {
			return
		}
		r.cancel()
		<-r.done
	})
}

// Kick has them look at the sources now.
func (r *Runners) Kick() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

func (r *Runners) run(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	defer r.leave()
	for {
		if err := r.look(ctx); err != nil && ctx.Err() == nil {
			r.Log.Debug("looking at the sources failed", "error", err)
			r.Failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		case <-r.kick:
		}
	}
}

// look starts the sources that this bridge is to run, and ends the others.
func (r *Runners) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, txTime)
	defer cancel()
	var all []fdbpq.Source
	err := r.Store.View(ctx, func(reader kv.Reader) (err error) {
		all, err = r.Store.AllSources(reader)
		return err
	})
	if err != nil {
		return err
	}
	remotes := r.Remotes()
	now := int64(r.Store.Time())
	wanted, needed, free := make(map[id]bool), make(map[string]bool), make(map[id]bool)
	for i := range all {
		s := &all[i]
		remote, known := remotes[s.Config.Remote]
		if s.Config.Paused || s.Position.Stop.Reason != "" || !known || !remote.allows(s.Queue, &s.Config) {
			continue
		}
		key := idOf(s)
		w := r.workers[key]
		if another := s.Run.Runner != r.Bridge && !r.Alone; another {
			if s.Run.Holds(now) {
				continue // it runs it
			}
			// Bridges that look at the same time share what is free.
			if free[key] = true; !r.free[key] && rand.N(2) == 0 {
				continue
			}
		}
		if w == nil || w.spoke.IsZero() || time.Since(w.spoke) >= sayEvery {
			mine, err := r.say(ctx, s, w)
			if err != nil {
				return err
			}
			if !mine {
				continue
			}
		}
		if w == nil || w.ended() || w.identity != remote.Identity || w.revision != s.Position.Revision {
			r.restart(s, w, remote)
		}
		wanted[key], needed[s.Config.Remote] = true, true
	}
	r.free = free
	for key, w := range r.workers {
		if wanted[key] {
			continue
		}
		if w.cancel(); w.ended() {
			delete(r.workers, key)
		}
	}
	r.connections.keep(needed)
	return nil
}

// say says that this bridge runs a source, and reports whether it does.
func (r *Runners) say(ctx context.Context, s *fdbpq.Source, w *worker) (mine bool, err error) {
	run := fdbpq.SourceRun{Runner: r.Bridge, Last: s.Run.Last}
	if w != nil {
		run.Last, run.Problem, run.Since = w.report()
	}
	err = r.update(ctx, func(tx kv.Tx) (err error) {
		mine, err = r.Store.Queue(s.Queue).RunSource(tx, s, run, r.Alone)
		return err
	})
	if err == fdbpq.ErrNoSource {
		return false, nil
	}
	if w != nil && err == nil {
		w.spoke = time.Now()
	}
	return mine, err
}

// restart has a worker run a source from where it is, at a later look if the one before has not ended yet: whoever waits for a remote that says nothing
// does not hold up the sources of others.
func (r *Runners) restart(s *fdbpq.Source, before *worker, remote Remote) {
	if before != nil && !before.ended() {
		before.cancel()
		return
	}
	w := &worker{runners: r, id: idOf(s), remote: remote, identity: remote.Identity, revision: s.Position.Revision, spoke: time.Now(), last: s.Run.Last, told: make(map[string]time.Time)}
	if before != nil {
		w.last, w.problem, w.since = before.report()
		w.told, w.untold, w.spoke = before.told, before.untold, before.spoke
	}
	r.workers[w.id] = w
	w.start()
}

// leave ends all workers, and gives up what they run.
func (r *Runners) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), txTime)
	defer cancel()
	for _, w := range r.workers {
		w.cancel()
	}
	for key, w := range r.workers {
		select {
		case <-w.done:
		case <-ctx.Done():
		}
		s := &fdbpq.Source{Queue: key.queue, Name: key.name, Born: key.born}
		err := r.update(ctx, func(tx kv.Tx) error { return r.Store.Queue(key.queue).LeaveSource(tx, s, r.Bridge) })
		if err != nil && err != fdbpq.ErrNoSource {
			r.Log.Debug("leaving a source failed: another bridge runs it in some seconds", "queue", key.queue, "source", key.name, "error", err)
		}
	}
	r.connections.keep(nil)
}

// update runs a transaction that takes effect exactly once.
func (r *Runners) update(ctx context.Context, fn func(kv.Tx) error) error {
	session := r.Store.Session()
	defer session.Release()
	return session.Update(ctx, fn)
}
