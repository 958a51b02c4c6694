package reads

import (
	"bytes"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// listable is a kind of named definitions of a queue: how pages of them are found and shown.
type listable[T, P any] struct {
	most  int                // on a page
	check func(string) error // of a name
	find  func(v *View, after string, limit int) ([]T, error)
	name  func(*T) string
	show  func(*T) (P, error)
	page  func(shown []P, next string) any
}

var (
	listableSchedules = &listable[schedule.Schedule, protocol.Schedule]{
		protocol.MaxSchedulesPage, schedule.CheckName,
		func(v *View, after string, limit int) ([]schedule.Schedule, error) {
			return v.Schedules.List(v.Reader, v.Queue, after, limit)
		},
		func(s *schedule.Schedule) string { return s.Name },
		func(s *schedule.Schedule) (protocol.Schedule, error) { return codec.Schedule(s, true), nil },
		func(shown []protocol.Schedule, next string) any {
			return protocol.SchedulesPage{Schedules: shown, Next: next}
		},
	}
	listableSources = &listable[source.Source, protocol.Source]{
		protocol.MaxSourcesPage, source.CheckName,
		func(v *View, after string, limit int) ([]source.Source, error) {
			return v.Runners.Sources.List(v.Reader, v.Queue, after, limit)
		},
		func(s *source.Source) string { return s.Name },
		codec.Source,
		func(shown []protocol.Source, next string) any {
			return protocol.SourcesPage{Sources: shown, Next: next}
		},
	}
	listableLinks = &listable[link.Link, protocol.Link]{
		protocol.MaxLinksPage, link.CheckName,
		func(v *View, after string, limit int) ([]link.Link, error) {
			return link.New(v.Store).List(v.Reader, v.Queue, after, limit)
		},
		func(l *link.Link) string { return l.Name },
		func(l *link.Link) (protocol.Link, error) { return codec.Link(l), nil },
		func(shown []protocol.Link, next string) any { return protocol.LinksPage{Links: shown, Next: next} },
	}
)

// listing shows a page of a kind.
type listing[T, P any] struct {
	jsonQuery
	*listable[T, P]
	after string
	limit int
}

func Schedules(subjects.Verb) desk.Work {
	return &listing[schedule.Schedule, protocol.Schedule]{listable: listableSchedules}
}

func Sources(subjects.Verb) desk.Work {
	return &listing[source.Source, protocol.Source]{listable: listableSources}
}

func Links(subjects.Verb) desk.Work {
	return &listing[link.Link, protocol.Link]{listable: listableLinks}
}

func (l *listing[T, P]) Expects() int { return l.limit / listedPart }

func (l *listing[T, P]) Read(*codec.Wire) *failure.Failure {
	l.limit = l.most
	return codec.ReadOptions(l.Msg, l.Subject.Verb.String(), "limit, after", l.field)
}

func (l *listing[T, P]) field(name string, value any) (known bool, f *failure.Failure) {
	switch name {
	case "limit":
		l.limit, f = codec.ReadLimit(name, value)
		l.limit = min(l.limit, l.most)
	case "after":
		if l.after, f = codec.ReadString(name, value); f == nil && l.after != "" {
			if err := l.check(l.after); err != nil {
				f = failure.BadRequest(err)
			}
		}
	default:
		return false, nil
	}
	return true, f
}

func (l *listing[T, P]) Find(v *View) error {
	found, err := l.listable.find(v, l.after, l.limit+1)
	if err != nil {
		return desk.AnswerNoQueue(&l.Request, err)
	}
	all, next := []P{}, ""
	space := int(v.Conn.MaxPayload()) - pageReserve - source.MaxName
	for i := range found {
		shown, err := l.show(&found[i])
		if err != nil {
			return err
		}
		text, err := protocol.Marshal(shown)
		if err != nil {
			return err
		}
		if space -= len(text) + len(","); i == l.limit || space < 0 && i > 0 {
			next = l.name(&found[i-1])
			break
		}
		all = append(all, shown)
	}
	return l.answerJSON(l.page(all, next))
}

// showSchedule shows a schedule with its next times, or the times that it would have.
type showSchedule struct {
	jsonQuery
	object []byte // what it would be, nil: as it is
	item   *schedule.Item
}

func Schedule(subjects.Verb) desk.Work { return new(showSchedule) }

func (s *showSchedule) Read(w *codec.Wire) (f *failure.Failure) {
	if f := codec.NoOwnHeaders(s.Msg.Header, s.Subject.Verb.String()); f != nil {
		return f
	}
	if s.object = bytes.TrimSpace(s.Msg.Data); len(s.object) == 0 {
		return nil
	}
	s.item, s.object, f = w.ReadScheduleItem(s.Subject.Queue, s.object)
	return f
}

func (s *showSchedule) Find(v *View) error {
	if len(s.object) > 0 {
		times, err := v.Schedules.Preview(v.Reader, v.Queue, s.Subject.Schedule, s.object, s.item, protocol.ScheduleTimesShown)
		if err != nil {
			return desk.AnswerNoSchedule(&s.Request, err)
		}
		return s.answerJSON(protocol.ScheduleTimes{Times: times})
	}
	found, times, err := v.Schedules.Get(v.Reader, v.Queue, s.Subject.Schedule, protocol.ScheduleTimesShown)
	if err != nil {
		return desk.AnswerNoSchedule(&s.Request, err)
	}
	shown := codec.Schedule(&found, false)
	shown.Times = times
	return s.answerJSON(shown)
}
