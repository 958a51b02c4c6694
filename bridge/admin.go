package bridge

import (
	"bytes"
	"encoding/json"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func makeAdmin(v subjects.Verb) work {
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
		return new(bulk)
	}
	return new(unservable)
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

func (a *admin) apply(at *changing) ([]fdbpq.Event, error) {
	answer, err := a.do(at.tx, at.queue)
	if purged, is := answer.(protocol.Purged); is {
		a.removed = purged.Purged
	}
	return nil, a.did(answer, err)
}

func (a *admin) Act() (done bool, details []any) {
	if a.Subject.Verb == subjects.AdminPurge {
		details = []any{"removed", a.removed}
	}
	return true, details
}

func (a *admin) count(tally *request.Tally) {
	if a.Failure == nil {
		tally[request.Removed] += a.removed
	}
}

// configure changes the configuration of a queue, or shows it when the body is empty.
type configure struct{ definition }

// read checks only the size of the body, and the names of queues in it. The core checks everything else.
func (c *configure) Read(*codec.Wire) *failure.Failure {
	if f := codec.NoOwnHeaders(c.Msg.Header, c.Subject.Verb.String()); f != nil {
		return f
	}
	return codec.CheckConfig(c.Msg.Data)
}

func (c *configure) apply(at *changing) ([]fdbpq.Event, error) {
	if object := bytes.TrimSpace(c.Msg.Data); len(object) > 0 {
		known, err := at.queue.Inspect(at.tx.Snapshot())
		if err != nil {
			return nil, err
		}
		if known == nil && !c.fits(at, fdbpq.DefinitionBytes) {
			return nil, nil
		}
		config, err := at.queue.Configure(at.tx, object)
		return nil, c.did(codec.Config(config), err)
	}
	i, err := at.queue.Inspect(at.tx.Snapshot())
	if err == nil && i == nil {
		err = fdbpq.ErrNoQueue
	}
	if err != nil {
		return nil, c.did(nil, err)
	}
	return nil, c.did(codec.Config(i.Config), nil)
}

func (c *configure) Act() (done bool, details []any) { return c.changedBy(c.Msg.Data) }

// adminKey changes the settings of one key, or shows them if the body is empty.
type adminKey struct{ definition }

func makeAdminKey(subjects.Verb) work { return new(adminKey) }

// read checks the key, and the size of the body. The core checks its content.
func (a *adminKey) Read(*codec.Wire) *failure.Failure {
	if f := codec.NoOwnHeaders(a.Msg.Header, a.Subject.Verb.String()); f != nil {
		return f
	}
	if _, f := codec.ReadKey("the key", a.Subject.Key); f != nil {
		return f
	}
	return codec.CheckDefinition(a.Msg.Data)
}

func (a *adminKey) apply(at *changing) ([]fdbpq.Event, error) {
	if object := bytes.TrimSpace(a.Msg.Data); len(object) > 0 {
		before, err := at.queue.KeySettings(at.tx, a.Subject.Key)
		if err != nil {
			return nil, err
		}
		if before == (fdbpq.KeySettings{}) && sets(object) && !a.fits(at, fdbpq.KeySettingsBytes) {
			return nil, nil
		}
		settings, err := at.queue.SetKey(at.tx, a.Subject.Key, object)
		return nil, a.did(codec.KeySettings(&settings), err)
	}
	info, err := at.queue.Key(at.tx.Snapshot(), a.Subject.Key)
	return nil, a.did(codec.KeySettings(&info.Settings), err)
}

func (a *adminKey) Act() (done bool, details []any) { return a.changedBy(a.Msg.Data) }

// sets reports whether a change of a key's settings sets something, and does not only drop settings. The core
// refuses a malformed one.
func sets(object []byte) bool {
	var settings fdbpq.KeySettings
	return json.Unmarshal(object, &settings) == nil && settings != fdbpq.KeySettings{}
}
