package source

import (
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// ErrMoved: the source is elsewhere than the caller has found it. Nothing was done.
var ErrMoved = errors.New("the source has moved")

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

// unmoved returns an error unless the source is where it was found, and has not stopped. The transaction
// depends on that.
func (s *Source) unmoved(tx kv.Tx, q fdbpq.Queue) error {
	if err := s.checkQueue(tx, q); err != nil {
		return err
	}
	value, err := tx.Get(s.home().Key(layout.SpacePosition, s.Name))
	if err != nil {
		return err
	}
	if value == nil {
		return ErrNone
	}
	var at Position
	if err := at.parse(value); err != nil {
		return fmt.Errorf("damaged source %q: %w", s.Name, err)
	}
	if at != s.Position || at.Stop.Reason != "" {
		return ErrMoved
	}
	return nil
}
