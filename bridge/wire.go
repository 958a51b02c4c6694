package bridge

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/receiver"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
)

// TooManyHeaders replaces a header block with too many headers. The connection under the
// bridge may put it in their place, because nats.go would parse all of them before the
// bridge sees the message.
const TooManyHeaders = codec.TooManyHeaders

// TooManyBytes is the header block of a message that such a connection left out, because
// bytes arrive faster than the bridge can read them.
const TooManyBytes = codec.TooManyBytes

// Floods tells such a connection which messages to leave out, because their tenant sends more
// than the bridge handles.
type Floods = receiver.Floods

// Headers are the headers of an item that a bridge has pushed.
func Headers(item *fdbpq.Item) nats.Header { return codec.Headers(item) }

// Listed is an item as lists and exports show it, without its payload and without its attempts.
func Listed(store *fdbpq.Store, held *fdbpq.StoredItem) *protocol.Listed {
	return codec.Listed(held, store.Display)
}

// Death describes a dead letter for lists and exports; nil for another item.
func Death(letter *fdbpq.DeadLetter) *protocol.Death { return codec.Death(letter) }

// Config is a configuration in the form of an answer.
func Config(c fdbpq.Config) protocol.Config { return codec.Config(c) }

// KeySettings are the settings of a key, as they are answered.
func KeySettings(k *fdbpq.KeySettings) protocol.KeySettings { return codec.KeySettings(k) }

// Definitions are the schedules, sources and links of a queue, as an export has them. The error names those that
// cannot be read; the others are there.
func Definitions(r kv.Reader, q fdbpq.Queue) (d protocol.Definitions, err error) {
	schedules, err := schedule.New(q.Store()).List(r, q, "", schedule.MaxCount)
	if err != nil {
		err = fmt.Errorf("schedules: %w", err)
	}
	size := 0
	for i := range schedules {
		one := codec.Schedule(&schedules[i], false)
		if size += len(schedules[i].Item.Headers) + len(schedules[i].Item.Payload); size > protocol.MaxExportDefinitions/2 {
			d.Schedules, err = nil, fmt.Errorf("the items of schedules have more than %d bytes", protocol.MaxExportDefinitions/2)
			break
		}
		d.Schedules = append(d.Schedules, one)
	}
	sources, wrong := source.New(q.Store()).List(r, q, "", source.MaxCount)
	if wrong != nil {
		err = errors.Join(err, fmt.Errorf("sources: %w", wrong))
	}
	for i := range sources {
		one, wrong := codec.Source(&sources[i])
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("source %s: %w", sources[i].Name, wrong))
			continue
		}
		d.Sources = append(d.Sources, one)
	}
	links, wrong := link.New(q.Store()).List(r, q, "", link.MaxCount)
	if wrong != nil {
		err = errors.Join(err, fmt.Errorf("links: %w", wrong))
	}
	for i := range links {
		d.Links = append(d.Links, codec.Link(&links[i]))
	}
	return d, err
}

// frontsOf are the subjects that a bridge subscribes to, under each of its prefixes.
func frontsOf(w *codec.Wire) (fronts []receiver.Subjects) {
	for _, g := range w.Grammar.Each() {
		fronts = append(fronts, receiver.Subjects{
			Requests:    g.All(),
			Settlements: g.Acks(),
			Signals:     g.AcksOf(w.Sealer.Conn),
			Pushes:      g.Pushes(),
		})
	}
	return fronts
}
