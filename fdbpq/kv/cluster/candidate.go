package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/takeover"
)

// answerFor is how long a candidate waits for the positions of the others.
const answerFor = 500 * time.Millisecond

// candidate is a member that may become active.
type candidate struct{ *tail }

// takeOver makes this member active, unless another member is alive or objects.
func (c candidate) takeOver(ctx context.Context) (*Term, error) {
	began := time.Now()
	c.self.stand()
	defer c.self.withdraw()
	known := c.poll(ctx, began)
	c.compared = time.Time{}
	switch entries, err := c.advance(ctx); {
	case err != nil:
		c.loss = takeover.Loss{}
		return nil, err
	case entries > 0 && !c.head.Released:
		c.self.set(peers.Candidate, "")
		return nil, nil // another member is active
	}
	now := takeover.Candidacy{Head: c.head, Process: c.process, Began: began, Others: known}
	if !now.Head.Released && now.ActiveAnswers(c.self.now().head) {
		c.self.alive()
		c.self.set(peers.Candidate, "")
		return nil, nil
	}
	objection, err := c.overtaken(ctx)
	if err != nil {
		return nil, err
	}
	if objection == "" {
		now.Doubts, now.Missing = claimKeeper{c.member}.doubts()
		now.Mark = c.peers.Mark(c.store())
		objection = now.Objection(&c.loss, time.Now())
	}
	if objection != "" {
		c.self.set(peers.Candidate, objection)
		c.slog.Warn("kv/cluster: no member may become active", "because", objection)
		return nil, fmt.Errorf("%w: %s", errLost, objection)
	}
	h := c.head
	written := now.LastWrite(c.self.now().written)
	entry := h.Next(c.process, chain.Epoch, []byte(c.options.Name)).Encode()
	if err := put(ctx, c.log(), h.Entry, entry, h.Identity); err != nil {
		if errors.Is(err, ErrFull) {
			logRoom{c.member}.makeRoom(ctx)
		}
		return nil, fmt.Errorf("%w: %w", errLost, err)
	}
	if err := c.accept(entry); err != nil {
		return nil, err
	}
	term := c.copy().Begin()
	return &Term{DB: term, local: term, epoch: c.head.Epoch, written: written, over: make(chan struct{})}, nil
}

// overtaken returns the reason for which the log itself keeps this member from becoming active: the log has a newer
// generation, or ends before the copy. A server that lags may say so for a moment.
//
// A recovery ends the log before it begins a newer generation, so a candidate could append nothing. Only if the old
// log was restored, from a backup for example, a candidate has to look for a newer generation. That may take
// seconds: the server that knows all logs may be the one that has just died. A recovery begins takeover.SteadyFor after an
// active member was heard last, or later.
func (c candidate) overtaken(ctx context.Context) (string, error) {
	h := c.head
	if !c.self.now().servedWithin(takeover.SteadyFor/2, time.Now()) {
		newest, err := c.newest(ctx)
		switch {
		case err != nil:
			return "", err
		case newest > h.Generation:
			c.outdated = true
			return fmt.Sprintf("this copy follows generation %d of the log, there is generation %d", h.Generation, newest), nil
		}
	}
	for began := time.Now(); ; {
		last := c.self.now().log.Last
		if last >= h.Entry {
			return "", nil
		}
		if time.Since(began) > answerFor {
			if last >= c.self.now().head.Entry {
				c.rewind()
				return "the log has lost a part of a transaction that nobody acknowledged: it is read again", nil
			}
			return fmt.Sprintf("this copy has entry %d, the log ends at %d: %s", h.Entry, last, c.loss.Verdict(last, time.Now())), nil
		}
		if err := pause(ctx, answerFor/10); err != nil {
			return "", err
		}
		if err := c.compare(ctx); err != nil {
			return "", err
		}
	}
}

// poll asks all members for their positions and returns the answers; for a member that does not answer, what it
// said last. It does not wait for members that were silent before.
func (c candidate) poll(ctx context.Context, began time.Time) []peers.Peer {
	ctx, cancel := context.WithTimeout(ctx, answerFor)
	defer cancel()
	announcer{c.member}.broadcast(peers.Heartbeat{Poll: true})
	for {
		all, news := c.peers.Heard()
		missing := len(all) == 0 && len(c.options.Members) != 1 || len(all) < len(c.options.Members)-1
		for _, p := range all {
			missing = missing || !p.Gone && !p.Lost && !p.Heard.After(began) && began.Sub(p.Heard) < c.options.unconfirmed()
		}
		if !missing {
			return all
		}
		select {
		case <-news:
		case <-ctx.Done():
			all, _ = c.peers.Heard()
			return all
		}
	}
}
