package cluster

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// errLost: this member did not become active. It tries again after a while.
var errLost = errors.New("not active")

// answerFor is how long a candidate waits for the positions of the others.
const answerFor = 500 * time.Millisecond

// campaign makes this member active, unless another one is alive or a member objects.
func (d *DB) campaign(ctx context.Context) (*Term, error) {
	began := time.Now()
	d.status.stand()
	defer d.status.withdraw()
	known := d.poll(ctx, began)
	d.tail.compared = time.Time{}
	switch entries, err := d.advance(ctx); {
	case err != nil:
		d.tail.short = shortfall{}
		return nil, err
	case entries > 0 && !d.tail.head.Released:
		d.status.set(Candidate, "")
		return nil, nil // another member is active
	}
	if !d.tail.head.Released {
		for _, p := range known {
			if p.heard.After(began) && d.showsLife(p.heartbeat) {
				d.status.alive()
				d.status.set(Candidate, "")
				return nil, nil
			}
		}
	}
	objection, err := d.overtaken(ctx)
	if err != nil {
		return nil, err
	}
	if objection == "" {
		objection = d.objection(known, began)
	}
	if objection == "" {
		objection = d.distrust()
	}
	if m := d.peers.mark(d.tail.store()); objection == "" && m.follows(mark{Generation: d.tail.head.Generation, Entry: d.tail.head.Entry}) {
		objection = fmt.Sprintf("member %s had entry %d of generation %d, the log ends at %d: %s", m.Member, m.Entry, m.Generation, d.tail.head.Entry, d.tail.verdict(d.tail.head.Entry))
	}
	if objection != "" {
		d.status.set(Candidate, objection)
		d.slog.Warn("kv/cluster: no member may become active", "because", objection)
		return nil, fmt.Errorf("%w: %s", errLost, objection)
	}
	h := d.tail.head
	written := d.lastWrite(known, began)
	entry := h.next(d.process, kindEpoch, []byte(d.options.Name)).encode()
	if err := put(ctx, d.log(), h.Entry, entry, h.Identity); err != nil {
		if errors.Is(err, ErrFull) {
			d.makeRoom(ctx)
		}
		return nil, fmt.Errorf("%w: %w", errLost, err)
	}
	if err := d.accept(entry); err != nil {
		return nil, err
	}
	term := d.copy().Begin()
	return &Term{DB: term, local: term, epoch: d.tail.head.Epoch, written: written, over: make(chan struct{})}, nil
}

// overtaken returns why this member must not become active by what the log says of itself:
// there is a newer generation of it, or it ends before the copy. A server that lags may say
// so for a moment.
//
// A recovery ends the log before it begins a newer generation, so a candidate could append
// nothing. Only if the old log is made as it was, from a backup for example, a candidate has
// to look for a newer one. That may take seconds: the server that knows all logs may be the one
// that has just died. A recovery begins steadyFor after an active member was heard last, or
// later.
func (d *DB) overtaken(ctx context.Context) (string, error) {
	h := d.tail.head
	if !d.status.servedWithin(steadyFor / 2) {
		newest, err := d.newest(ctx)
		switch {
		case err != nil:
			return "", err
		case newest > h.Generation:
			d.tail.outdated = true
			return fmt.Sprintf("this copy follows generation %d of the log, there is generation %d", h.Generation, newest), nil
		}
	}
	for began := time.Now(); ; {
		last := d.status.logLast()
		if last >= h.Entry {
			return "", nil
		}
		if time.Since(began) > answerFor {
			if last >= d.status.entry() {
				d.rewind()
				return "the log has lost a part of a transaction that nobody acknowledged: it is read again", nil
			}
			return fmt.Sprintf("this copy has entry %d, the log ends at %d: %s", h.Entry, last, d.tail.verdict(last)), nil
		}
		if err := pause(ctx, answerFor/10); err != nil {
			return "", err
		}
		if err := d.compare(ctx); err != nil {
			return "", err
		}
	}
}

// shortfall is a log that ends before an entry that somebody has.
type shortfall struct {
	end   uint64
	since time.Time
	looks int
}

// steadyLooks is how often a candidate has to see a loss, within steadyFor or longer.
const steadyLooks = 3

// verdict says what it means that the log ends before an entry that somebody has. A server
// that lags, or led the log until now, says so for some seconds. Only a loss that lasts is one.
func (t *tail) verdict(end uint64) string {
	s := &t.short
	if s.looks == 0 || s.end != end {
		*s = shortfall{end: end, since: time.Now()}
	}
	s.looks++
	if s.looks < steadyLooks || time.Since(s.since) < steadyFor {
		return "waiting for the log to show it"
	}
	return "it has lost entries that were acknowledged: " + advice
}

// poll asks all members where they are and returns what they said, or what they said
// last if they do not answer. It does not wait for those that were silent before.
func (d *DB) poll(ctx context.Context, began time.Time) []peer {
	ctx, cancel := context.WithTimeout(ctx, answerFor)
	defer cancel()
	d.broadcast(heartbeat{Poll: true})
	for {
		all, news := d.peers.heard()
		missing := len(all) == 0 && len(d.options.Members) != 1 || len(all) < len(d.options.Members)-1
		for _, p := range all {
			missing = missing || !p.Gone && !p.heard.After(began) && began.Sub(p.heard) < silentFor
		}
		if !missing {
			return all
		}
		select {
		case <-news:
		case <-ctx.Done():
			all, _ = d.peers.heard()
			return all
		}
	}
}

// objection returns why this member must not become active, or nothing: a member has
// more than the log, or something else. What it had when it was heard last counts, too.
func (d *DB) objection(known []peer, began time.Time) string {
	h := d.tail.head
	store := hex.EncodeToString(h.Store[:])
	for _, p := range known {
		switch {
		case p.Entry == 0:
		case p.Store != store && !p.heard.After(began):
			// It was none of this cluster, and is gone.
		case p.Store != store:
			return fmt.Sprintf("member %s has a copy of the store %s, this member one of %s", p.Member, p.Store, store)
		case p.Generation < h.Generation:
		case p.Generation > h.Generation:
			return fmt.Sprintf("member %s follows generation %d of the log, this one generation %d", p.Member, p.Generation, h.Generation)
		case p.Objection != "" && !p.Misread && p.heard.After(began):
			return fmt.Sprintf("member %s: %s", p.Member, p.Objection)
		case p.Entry > h.Entry:
			return fmt.Sprintf("member %s has entry %d, the log ends at %d: %s", p.Member, p.Entry, h.Entry, d.tail.verdict(h.Entry))
		case p.Entry == h.Entry && p.Hash != hex.EncodeToString(h.Hash[:]):
			return fmt.Sprintf("member %s has another entry %d than the log: entries that were acknowledged are lost: %s", p.Member, p.Entry, advice)
		}
	}
	return ""
}

// lastWrite is when the last transaction was committed, from a member that read it when
// it was new; zero if there is none.
func (d *DB) lastWrite(known []peer, began time.Time) time.Time {
	if at := d.status.lastWrite(); !at.IsZero() {
		return at
	}
	for _, p := range known {
		if p.Silence != nil && p.Entry == d.tail.head.Entry && p.heard.After(began) {
			return p.heard.Add(-*p.Silence)
		}
	}
	return time.Time{}
}
