package fdbpq

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
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

// sourceHome is where the rows of a queue's sources are. A purge leaves them there; they go with the queue.
type sourceHome struct {
	queue string
	born  int64
}

func (h sourceHome) prefix(space string) []byte {
	return tuple.AppendString(layout.GenerationPrefix(space, h.queue, h.born), kindSource)
}

func (h sourceHome) key(space, name string) []byte { return tuple.AppendString(h.prefix(space), name) }

// read returns a source, nil if there is none.
func (h sourceHome) read(r kv.Reader, name string) (*Source, error) {
	rows, err := r.GetAll([][]byte{h.key(layout.SpaceSource, name), h.key(layout.SpacePosition, name), h.key(layout.SpaceSourceRunner, name)})
	if err != nil || rows[0] == nil && rows[1] == nil {
		return nil, err
	}
	s := &Source{Queue: h.queue, Name: name, Born: h.born}
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
	r := tuple.Read(b)
	version, text := r.Int(), r.Bytes()
	if err := cmp.Or(r.Err(), sourceVersionIs(version)); err != nil {
		return c, err
	}
	return c, json.NewDecoder(bytes.NewReader(text)).Decode(&c)
}

const kindSource = "source"

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
