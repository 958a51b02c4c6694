package source

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// TermAlone is that of a process that has the store for itself: nobody waits for its end, so it need not write.
const TermAlone = time.Hour

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

// runner is who runs the source, by the store.
func (s *Source) runner(tx kv.Tx) (run Run, err error) {
	row, err := tx.Get(s.home().Key(layout.SpaceSourceRunner, s.Name))
	if err != nil || row == nil {
		return run, err
	}
	if err := run.parse(row); err != nil {
		return run, fmt.Errorf("damaged source %q: %w", s.Name, err)
	}
	return run, nil
}
