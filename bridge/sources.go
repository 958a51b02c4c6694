package bridge

import (
	"bytes"
	"encoding/json"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	feeds "github.com/pqbridge/pqbridge/bridge/internal/sources"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Remote is where a bridge finds streams for sources.
type Remote = feeds.Remote

// sources shows a page of sources.
type sources struct {
	jsonQuery
	after string
	limit int
}

func makeSources(subjects.Verb) work { return new(sources) }

func (s *sources) Read(*codec.Wire) *failure.Failure {
	s.limit = protocol.MaxSourcesPage
	return codec.ReadOptions(s.Msg, s.Subject.Verb.String(), "limit, after", s.field)
}

func (s *sources) field(name string, value any) (known bool, f *failure.Failure) {
	switch name {
	case "limit":
		s.limit, f = codec.ReadLimit(name, value)
		s.limit = min(s.limit, protocol.MaxSourcesPage)
	case "after":
		if s.after, f = codec.ReadString(name, value); f == nil && s.after != "" {
			if err := fdbpq.CheckSourceName(s.after); err != nil {
				f = failure.BadRequest(err)
			}
		}
	default:
		return false, nil
	}
	return true, f
}

func (s *sources) find(v *view) error {
	found, err := v.queue.Sources(v.reader, s.after, s.limit+1)
	if err != nil {
		return unlessUnknown(&s.Request, err)
	}
	page := protocol.SourcesPage{Sources: []protocol.Source{}}
	space := int(v.Conn.MaxPayload()) - pageReserve - fdbpq.MaxSourceName
	for i := range found {
		shown, err := codec.Source(&found[i])
		if err != nil {
			return err
		}
		text, err := json.Marshal(shown)
		if err != nil {
			return err
		}
		if space -= len(text) + len(","); i == s.limit || space < 0 && i > 0 {
			page.Next = found[i-1].Name
			break
		}
		page.Sources = append(page.Sources, shown)
	}
	return s.answerJSON(page)
}

// adminSource changes a source, or shows it when the body is empty.
type adminSource struct {
	change
	runners *feeds.Runners
	wire    *codec.Wire
	object  []byte
	from    fdbpq.SourceResume
}

func makeAdminSource(subjects.Verb) work { return new(adminSource) }

func (a *adminSource) Read(w *codec.Wire) (f *failure.Failure) {
	if f := codec.NoOwnHeaders(a.Msg.Header, a.Subject.Verb.String()); f != nil {
		return f
	}
	a.object, a.wire = bytes.TrimSpace(a.Msg.Data), w
	switch a.Subject.Verb {
	case subjects.AdminSource:
		return nil
	case subjects.AdminSourceResume:
		a.from, f = codec.ReadSourceResume(a.Msg, a.Subject.Verb.String())
		return f
	}
	return codec.NoOptions(a.Msg, a.Subject.Verb.String())
}

func (a *adminSource) apply(tx kv.Tx, q fdbpq.Queue) ([]fdbpq.Event, error) {
	a.Failure = nil
	var s fdbpq.Source
	var err error
	name := a.Subject.Source
	switch a.Subject.Verb {
	case subjects.AdminSourcePause:
		s, err = q.PauseSource(tx, name)
	case subjects.AdminSourceResume:
		s, err = q.ResumeSource(tx, name, a.from)
	case subjects.AdminSourceDelete:
		if err = q.DeleteSource(tx, name); err == nil {
			return nil, a.did(protocol.SourceNamed{Queue: subjects.Own(q.Name()), Name: name}, nil)
		}
	default:
		if len(a.object) > 0 {
			s, err = q.SetSource(tx, name, a.object, func(c fdbpq.SourceConfig) error { return a.allowed(q.Name(), name, c) })
		} else {
			s, err = q.Source(tx.Snapshot(), name)
		}
	}
	switch {
	case err == fdbpq.ErrNoSource:
		a.Failure = failure.NoSource(a.Subject.Queue, name)
		return nil, nil
	case err != nil:
		return nil, a.did(nil, err)
	}
	shown, err := codec.Source(&s)
	return nil, a.did(shown, err)
}

// allowed refuses what the operator has not allowed to the queue, and values that no push may have.
func (a *adminSource) allowed(queue, name string, c fdbpq.SourceConfig) error {
	if f := a.runners.Allowed(queue, &c); f != nil {
		return f
	}
	if _, f := a.wire.Sourced(queue, name, c.Map); f != nil {
		return f
	}
	return nil
}

func (a *adminSource) answer(re *request.Responder) {
	a.change.answer(re)
	a.runners.Kick()
}

// fed counts what sources have done.
func fed(re *request.Responder) func(queue string, f *fdbpq.Fed) {
	return func(queue string, f *fdbpq.Fed) {
		re.Stats.Moved(queue, request.FlowIn, f.Pushed)
		re.Stats.Queues.Count(queue, &request.Tally{request.Pushed: int64(f.Pushed), request.Duplicates: int64(f.Known), request.Dead: int64(f.Poisoned)})
		re.Events.Items(f.Events)
	}
}
