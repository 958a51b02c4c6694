package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/claims"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/takeover"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// answerFor is how long a candidate waits for the positions of the others.
const answerFor = 500 * time.Millisecond

// candidate is a member that may become active.
type candidate struct{ *tail }

// takeOver makes this member active, unless another member is alive or objects.
func (c candidate) takeOver(ctx context.Context) (*Term, error) {
	if c.partless.is.Load() && c.othersStand() {
		return nil, fmt.Errorf("%w: it is left to members whose disks have the log", errLost)
	}
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

// othersStand reports whether another member with a copy and a part of the log runs and replaces lost ones. If none does,
// a member without a part of the log is better than none: what it writes is on the disks of others.
func (c candidate) othersStand() bool {
	all, _ := c.peers.Heard()
	return slices.ContainsFunc(all, func(p peers.Peer) bool {
		return p.Entry > 0 && p.Stands() && !p.Lost && p.Runs(c.options.unconfirmed(), time.Now())
	})
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

const (
	claimSuffix = ".claims" // ends the name of the file beside the copy
	claimEvery  = 5 * time.Second

	claimLookEvery = 300 * time.Millisecond

	// witnessFor is how long a member counts as a witness after it was heard.
	witnessFor = 3 * time.Second
)

// claimKeeper keeps the claims of the members on the disk of one.
type claimKeeper struct{ *member }

// load reads the claims that an earlier process left.
func (k claimKeeper) load() error {
	l := &k.ledger
	content, err := local.ReadNote(k.dir, claimSuffix, k.options.Replica)
	if err == nil && content != nil {
		err = json.Unmarshal(content, &l.written)
	}
	if err != nil {
		name := k.dir + claimSuffix
		return fmt.Errorf("%s: expected what this program wrote: move %s away, and start this member: without the file it counts for nothing until it has caught up with an active one: %w", name, name, err)
	}
	if content == nil {
		if k.self.now().head.Entry > 0 { // the copy is of a version that made no claims
			l.written.Own.Witnesses = k.options.Members
		}
		return nil
	}
	l.written.Own.Lives = false
	return nil
}

// keep writes claims to the disk until ctx ends.
func (k claimKeeper) keep(ctx context.Context) {
	var written time.Time
	for {
		if next, urgent := k.next(); urgent || time.Since(written) >= claimEvery {
			written = time.Now()
			if err := k.write(next); err != nil {
				k.slog.Error("kv/cluster: writing the members' synced positions failed", "err", err)
			}
		}
		if pause(ctx, claimLookEvery) != nil {
			return
		}
	}
}

// next returns the claims that the disk should have, and whether other members wait for them.
func (k claimKeeper) next() (next claims.Ledger, urgent bool) {
	before, life := k.ledger.read(), ""
	k.lookForPart(before.Own.Lives)
	if !before.Own.Lives && k.caughtUp() {
		var id chain.ID
		_, _ = rand.Read(id[:]) // it never fails
		life = id.String()
	}
	var said []claims.Word
	all, _ := k.peers.Heard()
	for _, p := range all {
		said = append(said, claims.Word{
			Member: p.Member, Runs: p.Runs(witnessFor, time.Now()), HasPart: k.hasPart(p),
			Claim: p.Claim, Remembers: p.Knows[k.options.Name],
		})
	}
	return before.Next(said, life, k.self.now().head.Entry)
}

// partlessFor is how long a disk has to lack its part of the log to count as one without: a server that has just started may
// not have read it yet.
const partlessFor = 3 * time.Second

// lookForPart notes whether this disk has a part of the log. A member that has begun its life has one.
func (k claimKeeper) lookForPart(lives bool) {
	at, now := k.self.now().head, time.Now()
	switch lacks := !lives && at.Entry > 0 && errors.Is(k.options.LogReplica(at.Generation, 0), ErrNoPart); {
	case !lacks:
		k.partless.since = time.Time{}
	case k.partless.since.IsZero():
		k.partless.since = now
	}
	without := !k.partless.since.IsZero() && now.Sub(k.partless.since) >= partlessFor
	if k.partless.is.Swap(without) != without {
		k.announce()
	}
}

// hasPart reports whether the disk of a member may have a part of the log. A member that replaced another is
// missing from the lists of members that have not restarted since.
func (k claimKeeper) hasPart(p peers.Peer) bool {
	return !p.Partless && slices.Contains(k.options.Members, p.Member) || p.Claim != nil && p.Claim.Lives
}

func (k claimKeeper) write(next claims.Ledger) error {
	content, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := local.WriteNote(k.dir, claimSuffix, content, k.options.Replica); err != nil {
		return err
	}
	l := &k.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written = next
	return nil
}

// caughtUp reports whether this member's disk has all entries that were acknowledged before its start: it is
// active, or has reached the position of an active member that was heard since.
func (k claimKeeper) caughtUp() bool {
	target := k.ledger.aim()
	now := k.self.now()
	at := now.head
	has := target.Entry > 0 && at.Generation >= target.Generation && (at.Generation > target.Generation || at.Entry >= target.Entry)
	entry := target.Entry
	if at.Generation != target.Generation {
		entry = 0
	}
	return (now.role == peers.Active || has) && k.options.LogReplica(at.Generation, entry) == nil
}

// doubts says why the running members do not suffice, and names the absent members that may have the missing
// entries.
func (k claimKeeper) doubts() (why, missing string) {
	if k.options.LogReplica == nil || len(k.options.Members) < 2 {
		return "", ""
	}
	own := k.ledger.read()
	run := map[string]claims.Said{k.options.Name: {Claim: &own.Own, Knows: own.Others}}
	all, _ := k.peers.Heard()
	for _, p := range all {
		if p.Runs(peers.LivingFor, time.Now()) && !p.Partless && slices.Contains(k.options.Members, p.Member) {
			run[p.Member] = claims.Said{Claim: p.Claim, Knows: p.Knows}
		}
	}
	return claims.Doubts(k.options.Members, run)
}
