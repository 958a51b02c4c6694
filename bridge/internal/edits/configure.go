package edits

import (
	"bytes"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// configure changes the configuration of a queue, or shows it when the body is empty.
type configure struct{ definition }

// Read checks only the size of the body, and the names of queues in it. The core checks everything else.
func (c *configure) Read(*codec.Wire) *failure.Failure {
	if f := codec.NoOwnHeaders(c.Msg.Header, c.Subject.Verb.String()); f != nil {
		return f
	}
	return codec.CheckConfig(c.Msg.Data)
}

func (c *configure) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	if object := bytes.TrimSpace(c.Msg.Data); len(object) > 0 {
		known, err := at.Queue.Inspect(at.Tx.Snapshot())
		if err != nil {
			return nil, err
		}
		if known == nil && !c.fits(at, fdbpq.DefinitionBytes) {
			return nil, nil
		}
		config, err := at.Queue.Configure(at.Tx, object)
		return nil, c.did(codec.Config(config), err)
	}
	i, err := at.Queue.Inspect(at.Tx.Snapshot())
	if err == nil && i == nil {
		err = fdbpq.ErrNoQueue
	}
	if err != nil {
		return nil, c.did(nil, err)
	}
	return nil, c.did(codec.Config(i.Config), nil)
}

func (c *configure) Act() (done bool, details []any) { return c.changedBy(c.Msg.Data) }
