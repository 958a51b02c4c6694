package client

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Link gives the items of its queue to another store.
type Link = protocol.Link

// LinkChange has the fields of a link to change. What is nil stays as it is.
type LinkChange = protocol.LinkChange

// SetLink changes a link, and makes it and the queue if necessary. It returns the whole.
func (q *Queue) SetLink(ctx context.Context, name string, change LinkChange) (l Link, err error) {
	body, err := json.Marshal(change)
	if err != nil {
		return Link{}, err
	}
	err = q.ask(ctx, "set link", subjects.Subject{Verb: subjects.AdminLink, Link: name}, body, &l)
	return l, err
}

// Link returns a link. It takes the right to change it, unlike Links.
func (q *Queue) Link(ctx context.Context, name string) (l Link, err error) {
	err = q.ask(ctx, "link", subjects.Subject{Verb: subjects.AdminLink, Link: name}, nil, &l)
	return l, err
}

// Links returns the links behind a name; "" is in front of all. An error ends the sequence.
func (q *Queue) Links(ctx context.Context, after string) iter.Seq2[Link, error] {
	return func(yield func(Link, error) bool) {
		for {
			body, err := json.Marshal(protocol.LinksRequest{After: after})
			var page protocol.LinksPage
			if err == nil {
				err = q.ask(ctx, "links", subjects.Subject{Verb: subjects.Links}, body, &page)
			}
			if err != nil {
				yield(Link{}, err)
				return
			}
			for _, l := range page.Links {
				if !yield(l, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}

// PauseLink has a link give no further batch.
func (q *Queue) PauseLink(ctx context.Context, name string) (l Link, err error) {
	err = q.ask(ctx, "pause link", subjects.Subject{Verb: subjects.AdminLinkPause, Link: name}, nil, &l)
	return l, err
}

// ResumeLink ends a pause.
func (q *Queue) ResumeLink(ctx context.Context, name string) (l Link, err error) {
	err = q.ask(ctx, "resume link", subjects.Subject{Verb: subjects.AdminLinkResume, Link: name}, nil, &l)
	return l, err
}

// DeleteLink removes a link. One that holds items is removed by force alone: they return to their places, although the
// other store may have them already. It returns how many did.
func (q *Queue) DeleteLink(ctx context.Context, name string, force bool) (returned int, err error) {
	var body []byte
	if force {
		if body, err = json.Marshal(protocol.LinkDelete{Force: true}); err != nil {
			return 0, err
		}
	}
	var deleted protocol.LinkDeleted
	err = q.ask(ctx, "delete link", subjects.Subject{Verb: subjects.AdminLinkDelete, Link: name}, body, &deleted)
	return deleted.Returned, err
}
