// Package sources runs the sources of a store: it fetches messages from streams, and items from links of other
// stores, and pushes them.
//
// What it guarantees: it adds items to the queue only in a transaction that finds the source at the position at
// which the fetch began, and moves it on (source.Sources.Feed). So a message that is fetched twice, out of order, by
// two bridges or from a stream that lies is pushed once, or not at all. The package acknowledges a message to the
// stream only after the commit, and stops a source only by a transaction that finds it unchanged.
//
// One bridge runs a source at a time, by a row that it writes every two seconds, in one transaction for all its
// sources; a bridge that is alone on the store writes only changes. Only work depends on that, not correctness.
package sources

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
)

// Options configure the sources of a bridge.
type Options struct {
	Store   *fdbpq.Store
	Sources *source.Sources
	Wire    *codec.Wire
	Remotes func() map[string]Remote
	Bridge  string        // its id
	Alone   bool          // no other bridge is on the store
	Hold    time.Duration // how long the reason for a stop has to last; 0: Hold
	Log     *slog.Logger

	// Room says why a queue takes no new items, or nil. ended is called after the transaction.
	Room func(queue string, items, bytes int) (ended func(), full error)

	Fed    func(queue string, bytes int, fed *source.Fed) // bytes is the size of the messages that are handled
	Event  func(protocol.SourceEvent)
	Failed func(error) // a transaction has failed
}

// Hold is how long the reason for a stop has to last. A leader of a stream that was cut off from the others goes on
// answering for 20 s.
const Hold = 30 * time.Second

const (
	// lookEvery is the time between looks at the list of sources.
	lookEvery = 500 * time.Millisecond

	// lookEveryAlone is that time for a bridge that is alone on the store: every change there kicks it.
	lookEveryAlone = 2 * time.Second

	// sayEvery is how often a bridge writes that it runs a source.
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

	clock clock

	workers map[id]*worker // of the goroutine that looks
	free    map[id]bool    // no bridge ran them at the last look
}

// id identifies a source during its life.
type id struct {
	queue, name string
	born        int64
}

func idOf(s *source.Source) id { return id{s.Queue, s.Name, s.Born} }

// New returns the runners of a bridge. They run nothing before Start.
func New(o Options) *Runners {
	if o.Hold == 0 {
		o.Hold = Hold
	}
	return &Runners{Options: o, clock: clock{time.Now, time.After}, kick: make(chan struct{}, 1), workers: make(map[id]*worker), free: make(map[id]bool)}
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

// Stop ends all runs, and lets other bridges run the sources at once.
func (r *Runners) Stop() {
	r.stopped.Do(func() {
		if r.cancel == nil {
			return
		}
		r.cancel()
		<-r.done
	})
}

// Kick makes the runners look at the sources now.
func (r *Runners) Kick() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

func (r *Runners) run(ctx context.Context) {
	every := lookEvery
	if r.Alone {
		every = lookEveryAlone
	}
	look := time.NewTicker(every)
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

// look starts the sources that this bridge should run, and ends the others.
func (r *Runners) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, txTime)
	defer cancel()
	var all []source.Source
	err := r.Store.View(ctx, func(reader kv.Reader) (err error) {
		all, err = r.Sources.All(reader)
		return err
	})
	if err != nil {
		return err
	}
	remotes := r.Remotes()
	now := int64(r.Store.Time())
	var runs, says, leaves []*source.Source
	free := make(map[id]bool)
	for i := range all {
		s := &all[i]
		remote, known := remotes[s.Config.Remote]
		if s.Config.Paused || s.Position.Stop.Reason != "" || !known || !remote.allows(s.Queue, &s.Config) {
			if r.Alone && s.Run.Holds(now) { // by this bridge, or one that is gone
				leaves = append(leaves, s)
			}
			continue
		}
		key := idOf(s)
		if another := s.Run.Runner != r.Bridge && !r.Alone; another {
			if s.Run.Holds(now) {
				continue // the worker runs it
			}
			// Bridges that look at the same time share the free sources.
			if free[key] = true; !r.free[key] && rand.N(2) == 0 {
				continue
			}
		}
		if r.unsaid(s, now) {
			says = append(says, s)
		} else {
			runs = append(runs, s)
		}
	}
	if err := r.leaveAll(ctx, leaves); err != nil {
		return err
	}
	mine, err := r.say(ctx, says)
	if err != nil {
		return err
	}
	wanted, needed := make(map[id]bool), make(map[string]bool)
	for _, s := range append(runs, mine...) {
		remote := remotes[s.Config.Remote]
		w := r.workers[idOf(s)]
		if w == nil || w.ended() || w.identity != remote.Identity || w.revision != s.Position.Revision {
			r.restart(s, w, remote)
		}
		wanted[idOf(s)], needed[s.Config.Remote] = true, true
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

// unsaid reports whether the bridge has to write that it runs a source. A bridge that is alone on the store writes
// only changes.
func (r *Runners) unsaid(s *source.Source, now int64) bool {
	w := r.workers[idOf(s)]
	switch {
	case w == nil || w.spoke.IsZero():
		return true
	case time.Since(w.spoke) < sayEvery:
		return false
	case !r.Alone, s.Run.Runner != r.Bridge, s.Run.Until-now < int64(source.TermAlone/2):
		return true
	}
	last, problem, since := w.report()
	return s.Run.Last != last || s.Run.Problem != problem || s.Run.Since != since
}

// saysAtOnce bounds the sources of one such transaction.
const saysAtOnce = 200

// say writes that this bridge runs sources, and returns the sources that it does run.
func (r *Runners) say(ctx context.Context, says []*source.Source) (mine []*source.Source, err error) {
	for some := range slices.Chunk(says, saysAtOnce) {
		claims := make([]source.Claim, len(some))
		for i, s := range some {
			run := source.Run{Runner: r.Bridge, Last: s.Run.Last}
			if w := r.workers[idOf(s)]; w != nil {
				run.Last, run.Problem, run.Since = w.report()
			}
			claims[i] = source.Claim{Source: s, Run: run}
		}
		var is []bool
		err := r.update(ctx, func(tx kv.Tx) (err error) {
			is, err = r.Sources.RunMany(tx, claims, r.Alone)
			return err
		})
		if err != nil {
			return nil, err
		}
		for i, s := range some {
			if !is[i] {
				continue
			}
			if w := r.workers[idOf(s)]; w != nil {
				w.spoke = time.Now()
			}
			mine = append(mine, s)
		}
	}
	return mine, nil
}

// leaveAll writes that no bridge runs these sources.
func (r *Runners) leaveAll(ctx context.Context, all []*source.Source) error {
	for some := range slices.Chunk(all, saysAtOnce) {
		err := r.update(ctx, func(tx kv.Tx) error {
			for _, s := range some {
				if err := r.Sources.Leave(tx, s, s.Run.Runner); err != nil && err != source.ErrNone {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// restart starts a worker for a source. If the former worker has not ended yet, a later look does it, so a worker
// that waits for a silent remote does not delay the sources of others.
func (r *Runners) restart(s *source.Source, before *worker, remote Remote) {
	if before != nil && !before.ended() {
		before.cancel()
		return
	}
	w := &worker{runners: r, id: idOf(s), remote: remote, identity: remote.Identity,
		revision: s.Position.Revision, spoke: time.Now(), last: s.Run.Last, told: make(map[string]time.Time)}
	if before != nil {
		w.last, w.problem, w.since = before.report()
		w.told, w.untold, w.spoke = before.told, before.untold, before.spoke
	}
	r.workers[w.id] = w
	w.start()
}

// leave ends all workers, and gives up their sources.
func (r *Runners) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), txTime)
	defer cancel()
	for _, w := range r.workers {
		w.cancel()
	}
	var left []*source.Source
	for key, w := range r.workers {
		select {
		case <-w.done:
		case <-ctx.Done():
		}
		left = append(left, &source.Source{Queue: key.queue, Name: key.name, Born: key.born, Run: source.Run{Runner: r.Bridge}})
	}
	if err := r.leaveAll(ctx, left); err != nil {
		r.Log.Debug("leaving the sources failed: another bridge runs them in some seconds", "error", err)
	}
	r.connections.keep(nil)
}

// update runs a transaction that takes effect exactly once.
func (r *Runners) update(ctx context.Context, fn func(kv.Tx) error) error {
	session := r.Store.Session()
	defer session.Release()
	return session.Update(ctx, fn)
}
