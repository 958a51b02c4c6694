package edits

import (
	"bytes"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	feeds "github.com/pqbridge/pqbridge/bridge/internal/sources"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// adminSource changes a source, or shows it when the body is empty.
type adminSource struct {
	definition
	runners *feeds.Runners
	wire    *codec.Wire
	object  []byte
	from    source.Resume
}

func Source(subjects.Verb) desk.Work { return new(adminSource) }

func (a *adminSource) Read(w *codec.Wire) (f *failure.Failure) {
	if f := codec.NoOwnHeaders(a.Msg.Header, a.Subject.Verb.String()); f != nil {
		return f
	}
	a.object, a.wire = bytes.TrimSpace(a.Msg.Data), w
	switch a.Subject.Verb {
	case subjects.AdminSource:
		return codec.CheckDefinition(a.Msg.Data)
	case subjects.AdminSourceResume:
		a.from, f = codec.ReadSourceResume(a.Msg, a.Subject.Verb.String())
		return f
	}
	return codec.NoOptions(a.Msg, a.Subject.Verb.String())
}

func (a *adminSource) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	a.runners = at.Runners
	var s source.Source
	var err error
	name := a.Subject.Source
	switch a.Subject.Verb {
	case subjects.AdminSourcePause:
		s, err = a.runners.Sources.Pause(at.Tx, at.Queue, name)
	case subjects.AdminSourceResume:
		s, err = a.runners.Sources.Resume(at.Tx, at.Queue, name, a.from)
	case subjects.AdminSourceDelete:
		if err = a.runners.Sources.Delete(at.Tx, at.Queue, name); err == nil {
			return nil, a.did(protocol.SourceNamed{Queue: subjects.Own(at.Queue.Name()), Name: name}, nil)
		}
	default:
		if len(a.object) > 0 {
			if _, err = a.runners.Sources.Get(at.Tx.Snapshot(), at.Queue, name); (err == source.ErrNone || err == fdbpq.ErrNoQueue) && !a.fits(at, len(a.object)) {
				return nil, nil
			}
			s, err = a.runners.Sources.Set(at.Tx, at.Queue, name, a.object, func(c source.Config) error { return a.allowed(at.Queue.Name(), name, c) })
		} else {
			s, err = a.runners.Sources.Get(at.Tx.Snapshot(), at.Queue, name)
		}
	}
	switch {
	case err == source.ErrNone:
		a.Failure = failure.NoSource(a.Subject.Queue, name)
		return nil, nil
	case err != nil:
		return nil, a.did(nil, err)
	}
	shown, err := codec.Source(&s)
	return nil, a.did(shown, err)
}

// allowed refuses a stream that the operator has not allowed to the queue, and values that a push may not have.
func (a *adminSource) allowed(queue, name string, c source.Config) error {
	if f := a.runners.Allowed(queue, &c); f != nil {
		return f
	}
	if _, f := a.wire.Sourced(queue, name, c.Map); f != nil {
		return f
	}
	return nil
}

func (a *adminSource) Act() (done bool, details []any) {
	if a.Subject.Verb == subjects.AdminSource || a.Subject.Verb == subjects.AdminSourceResume && len(a.object) > 0 {
		return a.changedBy(a.object)
	}
	return true, nil
}

func (a *adminSource) Answer(re *request.Responder) {
	a.change.Answer(re)
	a.runners.Kick()
}
