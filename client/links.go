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

// LinkChange has the fields of a link to change. Nil fields stay as they are.
type LinkChange = protocol.LinkChange

// SetLink changes a link, and makes it and the queue if necessary. It returns the whole link.
func (q *Queue) SetLink(ctx context.Context, name string, change LinkChange) (l Link, err error) {
	body, err := json.Marshal(change)
	if err != nil {
		return Link{}, err
	}
	err = q.ask(ctx, "set link", subjects.Subject{Verb: subjects.AdminLink, Link: name}, body, &l)
	return l, err
}

// Link returns a link. Unlike Links it needs the right to change the link.
func (q *Queue) Link(ctx context.Context, name string) (l Link, err error) {
	err = q.ask(ctx, "link", subjects.Subject{Verb: subjects.AdminLink, Link: name}, nil, &l)
	return l, err
}

// Links returns the links behind a name; "" begins with the first. An error ends the sequence.
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

// PauseLink stops a link: it gives no further batch.
func (q *Queue) PauseLink(ctx context.Context, name string) (l Link, err error) {
	err = q.ask(ctx, "pause link", subjects.Subject{Verb: subjects.AdminLinkPause, Link: name}, nil, &l)
	return l, err
}

// ResumeLink ends a pause.
func (q *Queue) ResumeLink(ctx context.Context, name string) (l Link, err error) {
	err = q.ask(ctx, "resume link", subjects.Subject{Verb: subjects.AdminLinkResume, Link: name}, nil, &l)
	return l, err
}

// DeleteLink removes a link. A link that holds items is removed only by force: the items return to their places,
// although the other store may have them already. It returns how many returned.
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
