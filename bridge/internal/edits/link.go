package edits

import (
	"bytes"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// adminLink changes a link, or shows it when the body is empty.
type adminLink struct {
	definition
	object []byte
	force  bool
}

func Link(subjects.Verb) desk.Work { return new(adminLink) }

func (a *adminLink) Read(*codec.Wire) *failure.Failure {
	verb := a.Subject.Verb.String()
	if f := codec.NoOwnHeaders(a.Msg.Header, verb); f != nil {
		return f
	}
	switch a.object = bytes.TrimSpace(a.Msg.Data); a.Subject.Verb {
	case subjects.AdminLink:
		return codec.CheckDefinition(a.Msg.Data)
	case subjects.AdminLinkDelete:
		return codec.ReadFlags(a.Msg, verb, map[string]*bool{"force": &a.force})
	}
	return codec.NoOptions(a.Msg, verb)
}

func (a *adminLink) Apply(at *desk.ChangeTx) (events []fdbpq.Event, err error) {
	var shown link.Link
	links, name := link.New(at.Queue.Store()), a.Subject.Link
	switch a.Subject.Verb {
	case subjects.AdminLinkPause:
		shown, err = links.Pause(at.Tx, at.Queue, name, true)
	case subjects.AdminLinkResume:
		shown, err = links.Pause(at.Tx, at.Queue, name, false)
	case subjects.AdminLinkDelete:
		deleted := protocol.LinkDeleted{Queue: subjects.Own(at.Queue.Name()), Name: name}
		if deleted.Returned, events, err = links.Delete(at.Tx, at.Queue, name, a.force); err == nil {
			return events, a.did(deleted, nil)
		}
	default:
		if len(a.object) > 0 {
			if _, err = links.Get(at.Tx.Snapshot(), at.Queue, name); (err == link.ErrNone || err == fdbpq.ErrNoQueue) && !a.fits(at, len(a.object)) {
				return nil, nil
			}
			shown, err = links.Set(at.Tx, at.Queue, name, a.object)
		} else {
			shown, err = links.Get(at.Tx.Snapshot(), at.Queue, name)
		}
	}
	switch {
	case err == link.ErrNone:
		a.Failure = failure.NoLink(a.Subject.Queue, name)
		return nil, nil
	case err != nil:
		return nil, a.did(nil, err)
	}
	return nil, a.did(codec.Link(&shown), nil)
}

func (a *adminLink) Act() (done bool, details []any) {
	if a.Subject.Verb == subjects.AdminLink || a.Subject.Verb == subjects.AdminLinkDelete && len(a.object) > 0 {
		return a.changedBy(a.object)
	}
	return true, nil
}
