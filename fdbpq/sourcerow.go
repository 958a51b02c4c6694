package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Source is a source as it stands.
type Source struct {
	Queue, Name string
	Born        int64 // of the queue that it feeds: a later queue of the same name has another one
	Config      SourceConfig
	Position    SourcePosition
	Run         SourceRun
	State       SourceState
}

// sourceHome is where the rows of a queue's sources are.
type sourceHome struct{ named.Home }

func homeOfSources(queue string, born int64) sourceHome {
	return sourceHome{named.Home{Queue: queue, Born: born, Kind: "source"}}
}

// read returns a source, nil if there is none.
func (h sourceHome) read(r kv.Reader, name string) (*Source, error) {
	rows, err := r.GetAll([][]byte{h.Key(layout.SpaceSource, name), h.Key(layout.SpacePosition, name), h.Key(layout.SpaceSourceRunner, name)})
	if err != nil || rows[0] == nil && rows[1] == nil {
		return nil, err
	}
	s := &Source{Queue: h.Queue, Name: name, Born: h.Born}
	if s.Config, err = parseSource(rows[0]); err == nil {
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

func parseSource(b []byte) (c SourceConfig, err error) {
	_, err = nounSource.Parse(b, sourceVersion, &c)
	return c, err
}

// SourceState is what a source does.
type SourceState string

const (
	SourceRuns     SourceState = "running"
	SourceStarts   SourceState = "starting" // nobody has spoken with the stream yet
	SourcePaused   SourceState = "paused"
	SourceBlocked  SourceState = "blocked"   // the queue or the store is full
	SourceFails    SourceState = "failing"   // the stream cannot be read
	SourceNoRunner SourceState = "no_runner" // nobody runs it
	SourceStopped  SourceState = "stopped"   // a person has to look
)
