package edits

import (
	"bytes"
	"encoding/json"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// adminKey changes the settings of one key, or shows them if the body is empty.
type adminKey struct{ definition }

func Key(subjects.Verb) desk.Work { return new(adminKey) }

// Read checks the key, and the size of the body. The core checks its content.
func (a *adminKey) Read(*codec.Wire) *failure.Failure {
	if f := codec.NoOwnHeaders(a.Msg.Header, a.Subject.Verb.String()); f != nil {
		return f
	}
	if _, f := codec.ReadKey("the key", a.Subject.Key); f != nil {
		return f
	}
	return codec.CheckDefinition(a.Msg.Data)
}

func (a *adminKey) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	if object := bytes.TrimSpace(a.Msg.Data); len(object) > 0 {
		before, err := at.Queue.KeySettings(at.Tx, a.Subject.Key)
		if err != nil {
			return nil, err
		}
		if before == (fdbpq.KeySettings{}) && sets(object) && !a.fits(at, fdbpq.KeySettingsBytes) {
			return nil, nil
		}
		settings, err := at.Queue.SetKey(at.Tx, a.Subject.Key, object)
		return nil, a.did(codec.KeySettings(&settings), err)
	}
	info, err := at.Queue.Key(at.Tx.Snapshot(), a.Subject.Key)
	return nil, a.did(codec.KeySettings(&info.Settings), err)
}

func (a *adminKey) Act() (done bool, details []any) { return a.changedBy(a.Msg.Data) }

// sets reports whether a change of a key's settings sets something, and does not only drop settings. The core
// refuses a malformed one.
func sets(object []byte) bool {
	var settings fdbpq.KeySettings
	return json.Unmarshal(object, &settings) == nil && settings != fdbpq.KeySettings{}
}
