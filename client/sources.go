package client

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Source feeds its queue from a JetStream stream, or from a queue of another store by a [Link] of that.
type Source = protocol.Source

// SourceChange has the fields of a source to change. Nil fields stay as they are.
type SourceChange = protocol.SourceChange

// SourceValue is the value of a header of a message, or of a token of its subject.
type SourceValue = protocol.SourceValue

// SourceResume says with which message a source goes on. At most one field is set.
type SourceResume = protocol.SourceResume

// ItemSource is the message from which a source has made an item.
type ItemSource = protocol.ItemSource

// SetSource changes a source, and makes it and the queue if necessary. It returns the whole source.
func (q *Queue) SetSource(ctx context.Context, name string, change SourceChange) (s Source, err error) {
	body, err := json.Marshal(change)
	if err != nil {
		return Source{}, err
	}
	err = q.ask(ctx, "set source", subjects.Subject{Verb: subjects.AdminSource, Source: name}, body, &s)
	return s, err
}

// Source returns a source. Unlike Sources it needs the right to change the source.
func (q *Queue) Source(ctx context.Context, name string) (s Source, err error) {
	err = q.ask(ctx, "source", subjects.Subject{Verb: subjects.AdminSource, Source: name}, nil, &s)
	return s, err
}

// Sources returns the sources behind a name; "" begins with the first. An error ends the sequence.
func (q *Queue) Sources(ctx context.Context, after string) iter.Seq2[Source, error] {
	return func(yield func(Source, error) bool) {
		for {
			body, err := json.Marshal(protocol.SourcesRequest{After: after})
			var page protocol.SourcesPage
			if err == nil {
				err = q.ask(ctx, "sources", subjects.Subject{Verb: subjects.Sources}, body, &page)
			}
			if err != nil {
				yield(Source{}, err)
				return
			}
			for _, s := range page.Sources {
				if !yield(s, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}

// PauseSource stops a source.
func (q *Queue) PauseSource(ctx context.Context, name string) (s Source, err error) {
	err = q.ask(ctx, "pause source", subjects.Subject{Verb: subjects.AdminSourcePause, Source: name}, nil, &s)
	return s, err
}

// ResumeSource ends a pause. For a source that has stopped, from says how it goes on.
func (q *Queue) ResumeSource(ctx context.Context, name string, from SourceResume) (s Source, err error) {
	var body []byte
	if from != (SourceResume{}) {
		if body, err = json.Marshal(from); err != nil {
			return Source{}, err
		}
	}
	err = q.ask(ctx, "resume source", subjects.Subject{Verb: subjects.AdminSourceResume, Source: name}, body, &s)
	return s, err
}

// DeleteSource removes a source. The items that it has pushed stay, and so does the consumer of a source that
// takes.
func (q *Queue) DeleteSource(ctx context.Context, name string) error {
	return q.ask(ctx, "delete source", subjects.Subject{Verb: subjects.AdminSourceDelete, Source: name}, nil, nil)
}
