package source

import (
	"context"
	"crypto/rand"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Sources are the sources of a store as one process has them. Its methods may be called from any number of
// goroutines, and work inside a transaction of the caller, as the methods of a queue do. Those of one
// source return ErrNone if there is none, and those that take a queue fdbpq.ErrNoQueue if there is no such queue.
type Sources struct{ store *fdbpq.Store }

// New returns the sources of a store. They have no state but that of the store, so a process may have them several times.
func New(store *fdbpq.Store) *Sources { return &Sources{store} }

// The bounds of sources.
const (
	MaxName       = named.MaxName
	MaxCount      = 100  // of a queue
	MaxStoreCount = 1000 // of a store
	MaxPage       = 100
)

var bounds = named.Bounds{Space: layout.SpaceSource, Queue: MaxCount, Store: MaxStoreCount, TooMany: ErrTooMany}

// Get returns a source.
func (s *Sources) Get(r kv.Reader, q fdbpq.Queue, name string) (Source, error) {
	if err := CheckName(name); err != nil {
		return Source{}, err
	}
	h, err := homeOf(r, q)
	if err != nil {
		return Source{}, err
	}
	found, err := s.read(r, h, name)
	if err != nil {
		return Source{}, err
	}
	if found == nil {
		return Source{}, ErrNone
	}
	return *found, nil
}

// List returns a page of sources behind a name.
func (s *Sources) List(r kv.Reader, q fdbpq.Queue, after string, limit int) ([]Source, error) {
	h, err := homeOf(r, q)
	if err != nil {
		return nil, err
	}
	ids, err := h.Page(r, layout.SpaceSource, after, limit)
	if err != nil {
		return nil, err
	}
	return s.readAll(r, ids)
}

// All returns the sources of all queues.
func (s *Sources) All(r kv.Reader) ([]Source, error) {
	ids, err := named.All(r, layout.SpaceSource, MaxStoreCount)
	if err != nil {
		return nil, err
	}
	return s.readAll(r, ids)
}

func (s *Sources) readAll(r kv.Reader, ids []named.ID) (all []Source, err error) {
	for _, id := range ids {
		found, err := s.read(r, home{id.Home}, id.Name)
		if err != nil {
			return nil, err
		}
		if found != nil {
			all = append(all, *found)
		}
	}
	return all, nil
}

// read returns a source with what it does now, nil if there is none.
func (s *Sources) read(r kv.Reader, h home, name string) (*Source, error) {
	found, err := h.read(r, name)
	if err != nil || found == nil {
		return nil, err
	}
	now, err := s.store.Inside().Clock.At(r)
	if err != nil {
		return nil, err
	}
	found.State = found.state(now)
	return found, nil
}

// Set changes the fields of a source that the JSON object names. It makes the source and the queue if need
// be. allowed returns an error for a configuration that the source may not have.
func (s *Sources) Set(tx kv.Tx, q fdbpq.Queue, name string, object []byte, allowed func(Config) error) (Source, error) {
	if err := CheckName(name); err != nil {
		return Source{}, err
	}
	born, err := q.Make(tx)
	if err != nil {
		return Source{}, err
	}
	h := newHome(q.Name(), born)
	before, err := h.read(tx, name)
	if err != nil {
		return Source{}, err
	}
	after := Source{Queue: q.Name(), Name: name, Born: born, Config: defaultConfig()}
	if before != nil {
		after = *before
	} else if err := bounds.Room(tx.Snapshot(), h.Home); err != nil {
		return Source{}, err
	}
	if after.Config, err = after.Config.merge(object); err != nil {
		return Source{}, err
	}
	if before != nil && !after.Config.readsLike(&before.Config) {
		return Source{}, &Error{"remote, stream, queue, link and mode cannot be changed: delete the source, and make another one"}
	}
	if err := allowed(after.Config); err != nil {
		return Source{}, err
	}
	if before == nil && after.Config.OfLink() {
		if err := s.takesAlone(tx.Snapshot(), &after.Config); err != nil {
			return Source{}, err
		}
		after.Position.Batch = rand.Text() // of no batch: the giver knows this source by it until it has given one
	}
	if before != nil && before.Position.Created == 0 && !after.Config.Start.equal(before.Config.Start) {
		after.Position.to(0)
		after.Position.From = ""
	}
	return after, s.write(tx, &after)
}

// takesAlone refuses a second source of a link: both would say that they have what one of them has.
func (s *Sources) takesAlone(r kv.Reader, c *Config) error {
	all, err := s.All(r)
	if err != nil {
		return err
	}
	for i := range all {
		if other := &all[i].Config; other.OfLink() && other.Remote == c.Remote && other.Queue == c.Queue && other.Link == c.Link {
			return &Error{"another source takes from this link already"}
		}
	}
	return nil
}

// Pause stops a source.
func (s *Sources) Pause(tx kv.Tx, q fdbpq.Queue, name string) (Source, error) {
	return s.change(tx, q, name, func(found *Source) error {
		found.Config.Paused = true
		return nil
	})
}

func (s *Sources) change(tx kv.Tx, q fdbpq.Queue, name string, change func(*Source) error) (Source, error) {
	found, err := s.Get(tx, q, name)
	if err != nil {
		return Source{}, err
	}
	if err := change(&found); err != nil {
		return Source{}, err
	}
	return found, s.write(tx, &found)
}

// write writes a source that was changed. What was fetched before finds another position.
func (s *Sources) write(tx kv.Tx, changed *Source) error {
	changed.Position.Revision++
	definition, err := noun.Pack(rowVersion, changed.Config)
	if err != nil {
		return err
	}
	h := changed.home()
	tx.Set(h.Key(layout.SpaceSource, changed.Name), definition)
	tx.Set(h.Key(layout.SpacePosition, changed.Name), changed.Position.pack())
	now, err := s.store.Inside().Clock.At(tx.Snapshot())
	if err != nil {
		return err
	}
	if run := &changed.Run; !changed.Config.Paused && run.Until <= now { // from now on a process may see that nobody runs it
		run.vacate(now)
		tx.Set(h.Key(layout.SpaceSourceRunner, changed.Name), run.pack())
	}
	changed.State = changed.state(now)
	return nil
}

// Delete removes a source.
func (s *Sources) Delete(tx kv.Tx, q fdbpq.Queue, name string) error {
	found, err := s.Get(tx, q, name)
	if err != nil {
		return err
	}
	h := found.home()
	for _, space := range []string{layout.SpaceSource, layout.SpacePosition, layout.SpaceSourceRunner} {
		tx.Clear(h.Key(space, name))
	}
	return fdbpq.NoteUse(tx, q)
}

// Resume ends the pause of a source, and its stop if from says how to go on.
func (s *Sources) Resume(tx kv.Tx, q fdbpq.Queue, name string, from Resume) (Source, error) {
	return s.change(tx, q, name, func(found *Source) error { return found.resume(from) })
}

// Move changes how far a source is, unless it is elsewhere by now: at the first contact, over what the
// stream has lost, and to stop it.
func (s *Sources) Move(tx kv.Tx, of *Source, to Position) error {
	if err := of.unmoved(tx, s.store.Queue(of.Queue)); err != nil {
		return err
	}
	if to.Stop.Reason != "" && to.Stop.Since == 0 {
		to.Stop.Since = s.store.Inside().Clock.Wall().UnixNano()
	}
	tx.Set(of.home().Key(layout.SpacePosition, of.Name), to.pack())
	return nil
}

// Claim is what a process says of a source that it runs.
type Claim struct {
	Source *Source
	Run    Run
}

// RunMany is Run for many, in one transaction. A source that is gone is not the process's.
func (s *Sources) RunMany(tx kv.Tx, claims []Claim, alone bool) (mine []bool, err error) {
	var rows [][]byte
	for _, c := range claims {
		h := c.Source.home()
		rows = append(rows, layout.QueueRow(layout.SpaceState, h.Queue), h.Key(layout.SpaceSource, c.Source.Name), h.Key(layout.SpaceSourceRunner, c.Source.Name))
	}
	tx.Prefetch(rows...)
	mine = make([]bool, len(claims))
	for i, c := range claims {
		mine[i], err = s.Run(tx, c.Source, c.Run, alone)
		if err != nil && err != ErrNone {
			return nil, err
		}
	}
	return mine, nil
}

// Run says that a process runs a source for a while. It reports whether it may: no other one does, or alone
// says that no other one can. Nothing depends on it but who fetches.
func (s *Sources) Run(tx kv.Tx, of *Source, run Run, alone bool) (bool, error) {
	if err := s.known(tx, of); err != nil {
		return false, err
	}
	now, err := s.store.Inside().Clock.At(tx.Snapshot())
	if err != nil {
		return false, err
	}
	other, err := of.runner(tx)
	if err != nil {
		return false, err
	}
	if other.Runner != run.Runner && other.Holds(now) && !alone {
		return false, nil
	}
	run.Until = now + int64(Term)
	if alone {
		run.Until = now + int64(TermAlone)
	}
	tx.Set(of.home().Key(layout.SpaceSourceRunner, of.Name), run.pack())
	return true, nil
}

// Leave gives a source up, so that another process may run it at once.
func (s *Sources) Leave(tx kv.Tx, of *Source, runner string) error {
	if err := s.known(tx, of); err != nil {
		return err
	}
	run, err := of.runner(tx)
	if err != nil || run.Runner == "" || run.Runner != runner {
		return err
	}
	now, err := s.store.Inside().Clock.At(tx.Snapshot())
	if err == nil {
		run.vacate(now)
		tx.Set(of.home().Key(layout.SpaceSourceRunner, of.Name), run.pack())
	}
	return err
}

// known returns an error unless there still is the source, whatever it is by now.
func (s *Sources) known(tx kv.Tx, of *Source) error {
	if err := of.checkQueue(tx, s.store.Queue(of.Queue)); err != nil {
		return err
	}
	definition, err := tx.Get(of.home().Key(layout.SpaceSource, of.Name))
	if err == nil && definition == nil {
		err = ErrNone
	}
	return err
}

// Feed pushes messages of a source to its queue, in their order, if it is still at the position that its
// caller has found, and moves it on. ErrMoved: it is elsewhere. ErrNone: it is gone. full is the
// reason why the queue takes no new items, or nil.
//
// A message that no push would take becomes a dead letter. Where none can be made of it, the source stops
// there. When the queue is full, what fits is pushed.
func (s *Sources) Feed(tx kv.Tx, q fdbpq.Queue, of *Source, messages []Message, full error) (fed Fed, err error) {
	q.PrefetchPush(tx)
	tx.Prefetch(of.home().Key(layout.SpacePosition, of.Name))
	err = q.Full(full).In(tx, func(q fdbpq.Queue) error {
		fed, err = feeding{s.store, tx, q, full}.all(of, messages)
		return err
	})
	return fed, err
}

// Check reads all rows of sources and returns a sentence for each violation of an invariant, up to a
// hundred. Nothing may write to the store meanwhile: a concurrent write looks like damage.
// [fdbpq.Store.Check] checks all other rows.
//
// The invariants:
//   - every row can be parsed, and is of a queue that exists;
//   - a source has a definition and a position, and at most one runner.
func (s *Sources) Check(ctx context.Context) ([]string, error) {
	w := walk{
		positions: make(map[named.ID]bool),
		births:    named.BirthsOf(s.store),
	}
	return w.all(ctx, s.store.Inside().DB)
}
