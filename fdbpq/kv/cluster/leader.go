package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// maxRecord is how many bytes of changes one record has at most, unless one transaction has more.
const maxRecord = 10_000_000

// The active member looks every apartEvery whether the log's leader is on its machine, for the first time apartAfter its
// term began: the requests that waited for the term come first.
const (
	apartAfter = 2 * time.Second
	apartEvery = 5 * time.Second
)

// leader writes what its member commits to the log.
type leader struct{ *tail }

// lead writes the transactions of a term to the log, until another member is active,
// a release of this one is requested, or ctx ends.
func (l leader) lead(ctx context.Context, term *Term) (err error) {
	gather, interrupt := context.WithCancel(ctx)
	defer interrupt()
	l.self.begin(term, interrupt)
	l.announce()
	l.slog.Info("kv/cluster: this member is active", "epoch", term.epoch)
	defer func() {
		reason := err
		if reason == nil {
			reason = errReleased
		}
		term.end(reason)
		asked := l.self.finish(reason.Error())
		l.slog.Info("kv/cluster: this member is not active any more", "epoch", term.epoch, "because", reason)
		if asked != nil {
			asked.done <- l.resign(ctx, asked.successor)
		}
		l.announce()
	}()
	look := time.Now().Add(apartAfter)
	for {
		if !time.Now().Before(look) {
			// The member that is asked to lead may refuse, and then any other member may come to lead.
			if others := (lookout{l.member}).keepers(); l.options.Apart != nil && len(others) == len(l.options.Members)-1 {
				l.options.Apart(ctx, others)
			}
			look = time.Now().Add(apartEvery)
		}
		batch, err := next(gather, term, look)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			continue
		case err != nil:
			return nil // a release is requested, or ctx has ended
		}
		if err := l.write(ctx, batch); err != nil {
			return err
		}
	}
}

// next returns the next batch, or context.DeadlineExceeded at the given time.
func next(ctx context.Context, term *Term, at time.Time) (*local.Batch, error) {
	ctx, cancel := context.WithDeadline(ctx, at)
	defer cancel()
	return term.local.Next(ctx, maxRecord)
}

// write writes a batch to the log and decides it. An error means that the term is over.
func (l leader) write(ctx context.Context, batch *local.Batch) error {
	head, began := l.head, time.Now()
	l.self.appending(began)
	defer l.self.appending(time.Time{})
	payloads := chain.Split(batch.Changes(), l.log().MaxEntry())
	for i, payload := range payloads {
		kind := chain.Fragment
		if i == len(payloads)-1 {
			kind = chain.Changes
		}
		entry := head.Next(l.process, kind, payload).Encode()
		switch err := put(ctx, l.log(), head.Entry, entry, head.Identity); {
		case errors.Is(err, ErrFull):
			// Parts of the record that are in the log do not count: the next record begins anew.
			l.head = head
			batch.Refuse(err)
			return nil
		case errors.Is(err, errForeign), errors.Is(err, ErrNoLog):
			batch.Refuse(err)
			return err
		case err != nil:
			batch.MarkUnknown(err)
			return err
		}
		l.self.grown(head.Entry+1, len(entry))
		head.Entry, head.Number, head.Hash = head.Entry+1, head.Number+1, chain.HashOf(entry)
		l.head = head
		l.self.readTo(head.Entry)
	}
	if err := batch.Commit(head.Encode()); err != nil {
		return fmt.Errorf("%w: %w", errStop, err)
	}
	var wrote time.Time
	if len(batch.Changes()) > 0 {
		wrote = began
	}
	l.self.moved(head, wrote, true)
	l.announce()
	return nil
}

// resign writes to the log that this member has stepped down, so that the others need
// not wait for a sign of life.
func (l leader) resign(ctx context.Context, successor string) error {
	if successor == "" {
		successor, _ = lookout{l.member}.successor("") // without one the others wait for a sign of life
	}
	h := l.head
	entry := h.Next(l.process, chain.Release, []byte(successor)).Encode()
	if err := put(ctx, l.log(), h.Entry, entry, h.Identity); err != nil {
		return err
	}
	return l.accept(entry)
}
