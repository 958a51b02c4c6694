package edits

import (
	"bytes"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func Admin(v subjects.Verb) desk.Work {
	switch v {
	case subjects.AdminConfig:
		return new(configure)
	case subjects.AdminPurge:
		return &admin{do: func(tx kv.Tx, q fdbpq.Queue) (any, error) {
			n, err := q.Purge(tx)
			return protocol.Purged{Purged: n}, err
		}}
	case subjects.AdminPause:
		return &admin{do: named(func(tx kv.Tx, q fdbpq.Queue) error { return q.Pause(tx) })}
	case subjects.AdminResume:
		return &admin{do: named(func(tx kv.Tx, q fdbpq.Queue) error { return q.Resume(tx) })}
	case subjects.AdminDelete:
		return &admin{do: named(func(tx kv.Tx, q fdbpq.Queue) error {
			_, err := q.Delete(tx)
			return err
		})}
	case subjects.AdminRemove, subjects.AdminMove, subjects.AdminRevoke, subjects.AdminRequeue:
		return new(Bulk)
	}
	return new(desk.Unservable)
}

// admin is a request without options that changes a queue as a whole.
type admin struct {
	change
	do      func(kv.Tx, fdbpq.Queue) (answer any, err error)
	removed int64 // items
}

// named answers with the name of the queue.
func named(do func(kv.Tx, fdbpq.Queue) error) func(kv.Tx, fdbpq.Queue) (any, error) {
	return func(tx kv.Tx, q fdbpq.Queue) (any, error) {
		return protocol.Named{Queue: subjects.Own(q.Name())}, do(tx, q)
	}
}

func (a *admin) Read(*codec.Wire) *failure.Failure {
	return codec.NoOptions(a.Msg, a.Subject.Verb.String())
}

func (a *admin) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	answer, err := a.do(at.Tx, at.Queue)
	if purged, is := answer.(protocol.Purged); is {
		a.removed = purged.Purged
	}
	var events []fdbpq.Event
	if v := a.Subject.Verb; err == nil && (v == subjects.AdminPurge || v == subjects.AdminDelete) {
		events = []fdbpq.Event{{Type: protocol.EventPurged, Queue: at.Queue.Name()}}
	}
	return events, a.did(answer, err)
}

func (a *admin) Act() (done bool, details []any) {
	if a.Subject.Verb == subjects.AdminPurge {
		details = []any{"removed", a.removed}
	}
	return true, details
}

func (a *admin) Tally(tally *request.Tally) {
	if a.Failure == nil {
		tally[request.Removed] += a.removed
	}
}

// Answer also forgets how items of a deleted queue ended: a queue that gets its name has nothing to do with them.
func (a *admin) Answer(re *request.Responder) {
	if a.Subject.Verb == subjects.AdminDelete && a.Failure == nil {
		re.Stats.Forget(a.Subject.Queue)
	}
	a.change.Answer(re)
}

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
