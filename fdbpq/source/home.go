package source

import (
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// home is where the rows of a queue's sources are.
type home struct{ named.Home }

func newHome(queue string, born int64) home {
	return home{named.Home{Queue: queue, Born: born, Kind: "source"}}
}

// read returns a source, nil if there is none.
func (h home) read(r kv.Reader, name string) (*Source, error) {
	rows, err := r.GetAll([][]byte{h.Key(layout.SpaceSource, name), h.Key(layout.SpacePosition, name), h.Key(layout.SpaceSourceRunner, name)})
	if err != nil || rows[0] == nil && rows[1] == nil {
		return nil, err
	}
	s := &Source{Queue: h.Queue, Name: name, Born: h.Born}
	if s.Config, err = parseConfig(rows[0]); err == nil {
		err = s.Position.parse(rows[1])
	}
	if err == nil && rows[2] != nil {
		err = s.Run.parse(rows[2])
	}
	if err != nil {
		return nil, fmt.Errorf("damaged source %q: %w", name, err)
	}
	return s, nil
}

func parseConfig(b []byte) (c Config, err error) {
	_, err = noun.Parse(b, rowVersion, &c)
	return c, err
}

func (s *Source) home() home { return newHome(s.Queue, s.Born) }

// checkQueue returns ErrNone unless the queue that the source feeds is the one that had it.
func (s *Source) checkQueue(tx kv.Tx, q fdbpq.Queue) error {
	born, err := q.Born(tx)
	if errors.Is(err, fdbpq.ErrNoQueue) || err == nil && born != s.Born {
		return ErrNone
	}
	return err
}
