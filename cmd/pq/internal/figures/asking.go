package figures

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/subjects"
)

// AsksAtOnce bounds how many requests are sent without an answer.
const AsksAtOnce = 16

// NamesPage is how many names are asked for at a time.
const NamesPage = 200

// PagesOf returns the names of the queues that begin with a prefix, a page at a time.
func PagesOf(ctx context.Context, c *client.Client, prefix string) iter.Seq2[*client.QueuesPage, error] {
	return func(yield func(*client.QueuesPage, error) bool) {
		for after := ""; ; {
			page, err := c.QueuesPage(ctx, client.QueuesOptions{Prefix: prefix, After: after, Limit: NamesPage})
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(page, nil) || page.Next == "" {
				return
			}
			after = page.Next
		}
	}
}

// QueuesOf asks about the queues that begin with a prefix. One that is deleted meanwhile is left
// out.
func QueuesOf(ctx context.Context, c *client.Client, prefix string) (infos []*client.Info, left Unasked, err error) {
	for page, err := range PagesOf(ctx, c, prefix) {
		if err != nil {
			return nil, left, err
		}
		left.Note(page)
		there, err := InfosOf(ctx, c, page.Queues, &left)
		if err != nil {
			return nil, left, err
		}
		infos = append(infos, there...)
	}
	return infos, left, nil
}

// InfosOf asks about queues. Those that do not exist, and those that nobody can ask about, are left out. So are those that the bridge
// cannot read, unless it can read none: left notes them. After an error it asks no more.
func InfosOf(ctx context.Context, c *client.Client, names []string, left *Unasked) ([]*client.Info, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	infos, failed := make([]*client.Info, len(names)), make([]error, len(names))
	var read, unread atomic.Int64
	turns := make(chan struct{}, AsksAtOnce)
	var asking sync.WaitGroup
	for i, name := range names {
		if subjects.CheckQueue(name) != nil {
			continue // see Unasked
		}
		turns <- struct{}{}
		asking.Go(func() {
			defer func() { <-turns }()
			if ctx.Err() != nil {
				return
			}
			info, err := c.Queue(name).Info(ctx)
			switch {
			case err == nil:
				infos[i] = info
				read.Add(1)
			case errors.Is(err, client.ErrNotFound):
			case isUnread(err) && (unread.Add(1) < AsksAtOnce || read.Load() > 0):
				failed[i] = err
			default:
				cancel(err)
			}
		})
	}
	asking.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if unread.Load() > 0 && read.Load() == 0 {
		return nil, errors.Join(failed...)
	}
	there := infos[:0]
	for i, info := range infos {
		if failed[i] != nil {
			left.Unread = append(left.Unread, names[i])
			left.Why = cmp.Or(left.Why, failed[i])
		}
		if info != nil {
			there = append(there, info)
		}
	}
	return there, nil
}

// isUnread reports whether the bridge was asked, and could not read the queue.
func isUnread(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && refused.Code == 500
}
