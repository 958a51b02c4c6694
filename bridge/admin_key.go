package bridge

import (
	"bytes"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/subjects"
)

// adminKey changes the settings of one key, or shows them when the body is empty.
type adminKey struct{ change }

func makeAdminKey(subjects.Verb) work { return new(adminKey) }

// read checks the key. The core checks the body.
func (a *adminKey) Read(*codec.Wire) *failure.Failure {
	if f := codec.NoOwnHeaders(a.Msg.Header, a.Subject.Verb.String()); f != nil {
		return f
	}
	_, f := codec.ReadKey("the key", a.Subject.Key)
	return f
}

func (a *adminKey) apply(tx kv.Tx, q fdbpq.Queue) ([]fdbpq.Event, error) {
	if object := bytes.TrimSpace(a.Msg.Data); len(object) > 0 {
		settings, err := q.SetKey(tx, a.Subject.Key, object)
		return nil, a.did(codec.KeySettings(&settings), err)
	}
	info, err := q.Key(tx.Snapshot(), a.Subject.Key)
	return nil, a.did(codec.KeySettings(&info.Settings), err)
}
