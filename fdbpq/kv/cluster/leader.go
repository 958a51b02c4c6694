package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
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

// Term is a time in which this member is active. It is a kv.DB: its transactions fail with ErrUnavailable once the
// term is over, and belong to no later term. A program has to forget its memory of the store when the term ends.
type Term struct {
	kv.DB
	local   *local.Term
	epoch   uint64
	written time.Time
	over    chan struct{}
	reason  error // set before over is closed
}

// Brief implements [kv.Brief].
func (t *Term) Brief() int { return t.local.Brief() }

// Epoch is the number of the term. No other term of any member has it.
func (t *Term) Epoch() uint64 { return t.epoch }

// LastWrite is when the last transaction before this term was ready to be written to the log, or somewhat later, by
// the monotonic clock of the member that wrote it, or of one that followed the log at that time. ok is false when no
// member knows, because none of them ran.
func (t *Term) LastWrite() (at time.Time, ok bool) { return t.written, !t.written.IsZero() }

// Over is closed when the term is over.
func (t *Term) Over() <-chan struct{} { return t.over }

// Reason says why the term is over, once it is.
func (t *Term) Reason() error { return t.reason }

// end ends the term.
func (t *Term) end(reason error) {
	t.reason = reason
	t.local.End(reason)
	close(t.over)
}

// release is a request to step down.
type release struct {
	successor string
	done      chan error
}

// ErrNotActive: the member is not the active one.
var ErrNotActive = errors.New("kv/cluster: this member is not active")

// ErrNoSuccessor: no other member can take over.
var ErrNoSuccessor = errors.New("kv/cluster: no other member can take over")

// errReleased: the member has stepped down, or is about to.
var errReleased = errors.New("this member has stepped down")

// A log that has lost entries is ended, and a new generation of the log begins with the copy of one member. Its
// entries are numbered from 1 again; epochs go on.

// renewal goes over to newer generations of the log.
type renewal struct{ *tail }

// mayBeOutdated reports whether the log may have a newer generation than the copy: after an
// error of advance, or because another member follows one.
func (r renewal) mayBeOutdated(err error) bool {
	h := r.head
	if errors.Is(err, errEnded) {
		r.self.settle()
	}
	if r.outdated || errors.Is(err, errEnded) || errors.Is(err, ErrNoLog) || errors.Is(err, chain.ErrBehind) || errors.Is(err, errStop) {
		return true
	}
	return r.peers.Generation(r.store()) > max(h.Generation, chain.FirstGeneration)
}

// renew goes over to the newest generation of the log. It returns false if the copy follows that generation
// already.
func (r renewal) renew(ctx context.Context) (newer bool, err error) {
	generation, err := r.newest(ctx)
	if err != nil || generation <= max(r.head.Generation, chain.FirstGeneration) {
		return false, err
	}
	log := r.logs.Generation(generation)
	var state LogState
	err = attempt(ctx, func(ctx context.Context) (err error) {
		state, err = log.State(ctx)
		return err
	})
	switch {
	case err != nil:
		return true, err
	case state.Ended:
		return true, fmt.Errorf("%w, and no newer one has begun: %s", errEnded, chain.Advice)
	}
	at := r.self.now().head // parts of a transaction whose end is missing do not count
	entry, err := readEntry(ctx, log, 1)
	var b chain.Base
	switch {
	case err == nil:
		at, b, err = at.Begin(entry, generation)
	case errors.Is(err, ErrNoEntry) && state.First > 1:
		err = chain.ErrBehind // the record was purged
	case errors.Is(err, ErrNoEntry):
		return true, fmt.Errorf("generation %d of the log has no record yet: a recovery is under way, or was interrupted: run \"pqd recover\" again", generation)
	}
	switch {
	case errors.Is(err, chain.ErrBehind):
		r.self.observe(state)
		return true, fetcher{r.tail}.fetch(ctx, generation, b)
	case err != nil:
		return true, fmt.Errorf("generation %d of the log, entry 1: %w", generation, err)
	}
	if err := r.copy().Apply(nil, at.Encode()); err != nil {
		return true, err
	}
	r.enter(at)
	r.slog.Warn("kv/cluster: a new generation of the log continues this copy", "generation", generation, "entry", b.Entry)
	return true, nil
}

// awaitMend waits until this member, which has stopped, has gone over to a newer generation of the log, or has read
// a good version of the entry at which it stopped.
func (r renewal) awaitMend(ctx context.Context, stopped error) error {
	for told := ""; ; {
		if err := pause(ctx, renewEvery); err != nil {
			return err
		}
		if errors.Is(stopped, errEntry) {
			if entries, err := r.advance(ctx); entries > 0 || errors.Is(err, errEnded) {
				return nil
			}
		}
		newer, err := r.renew(ctx)
		switch {
		case newer && err == nil:
			return nil
		case newer && err.Error() != told:
			told = err.Error()
			r.slog.Warn("kv/cluster: changing to a newer generation of the log failed", "err", err)
		}
	}
}

// renewEvery is the time between looks for a newer generation.
const renewEvery = time.Second
