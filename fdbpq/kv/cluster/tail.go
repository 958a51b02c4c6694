package cluster

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/takeover"
)

// tail is the end of the log as far as this member has read it.
type tail struct {
	head      chain.Head
	assembly  chain.Parts
	caughtUp  time.Time     // when the log had nothing new last
	compared  time.Time     // when the copy was compared with the state of the log
	outdated  bool          // there is a newer generation of the log
	successor string        // the member that the last record names, if that releases the epoch
	loss      takeover.Loss // seen by the last candidacy
	misses    int           // how often in a row the log did not show an entry that another member has
}

// store is the id of the store that the copy is of; "" while it is empty.
func (t *tail) store() string {
	if t.head.Entry == 0 {
		return ""
	}
	return hex.EncodeToString(t.head.Store[:])
}

// freshFor is how recently a member must have been at the end of the log for the next entry to count as new.
const freshFor = 2 * time.Second

// errStop: the copy and the log do not belong together, or this version cannot read the
// log. The member serves nothing until an operator has looked.
var errStop = errors.New("this member must not go on")

// errEntry: like errStop, because of an entry that does not continue the copy. The entry may be read correctly
// later: the server that has it may be damaged, or this program too old.
var errEntry = fmt.Errorf("%w", errStop)

const readAtOnce = 64 // entries

// missPause is how long a member waits after the first time that the log does not show an entry that another member
// has: a server that lags will soon have it.
const missPause = 2 * time.Millisecond

// untilPoll is how long to wait before the log is read again without a hint.
func (d *DB) untilPoll() time.Duration {
	if d.peers.Furthest(d.tail.head) <= d.tail.head.Entry {
		d.tail.misses = 0
		return pollEvery
	}
	d.tail.misses++
	return min(missPause<<min(d.tail.misses-1, 10), pollEvery)
}

// advance reads the log to its end and commits the entries to the copy. It returns how many there were.
func (d *DB) advance(ctx context.Context) (entries int, err error) {
	for {
		var found [][]byte
		err := attempt(ctx, func(ctx context.Context) (err error) {
			found, err = d.log().Read(ctx, d.tail.head.Entry+1, readAtOnce)
			return err
		})
		if errors.Is(err, ErrNoEntry) {
			d.tail.caughtUp = time.Now()
			if time.Since(d.tail.compared) < pollEvery {
				return entries, nil
			}
			return entries, d.compare(ctx)
		}
		if err != nil {
			return entries, err
		}
		for _, entry := range found {
			err := d.accept(entry)
			if errors.Is(err, errEntry) {
				err = d.acceptConfirmed(ctx, entry, err)
			}
			if err != nil {
				return entries, err
			}
			entries++
		}
	}
}

// acceptConfirmed accepts an entry as the leader of the log has it, if it differs from the refused entry of another
// server.
func (d *DB) acceptConfirmed(ctx context.Context, wrong []byte, refused error) error {
	var right []byte
	err := attempt(ctx, func(ctx context.Context) (err error) {
		right, err = d.log().Confirm(ctx, d.tail.head.Entry+1)
		return err
	})
	switch {
	case err != nil:
		return err // it is not known yet which server is right
	case bytes.Equal(right, wrong):
		return refused
	}
	d.slog.Warn("kv/cluster: a server of the log has a wrong entry: it was read from another one", "entry", d.tail.head.Entry+1, "err", refused)
	return d.accept(right)
}

// rewind forgets the parts of a transaction whose end is missing: the log may have lost them, and other entries may
// have their place.
func (d *DB) rewind() {
	d.tail.head, d.tail.assembly = d.status.position(), chain.Parts{}
	d.status.readTo(d.tail.head.Entry)
}

// compare compares the copy with the state of the log when the log has no new entries. A log that ends before the
// copy proves nothing here: a server that lags shows such a log, too.
func (d *DB) compare(ctx context.Context) error {
	var state LogState
	err := attempt(ctx, func(ctx context.Context) (err error) {
		state, err = d.log().State(ctx)
		return err
	})
	if err != nil {
		return err
	}
	d.status.observe(state)
	h := &d.tail.head
	switch {
	case state.Ended:
		return errEnded
	case h.Identity == "":
		h.Identity = state.Identity
	case h.Identity != state.Identity:
		return fmt.Errorf("%w: the log was deleted and made again: it is %s, this is a copy of %s: %s", errStop, state.Identity, h.Identity, chain.Advice)
	}
	if state.First > h.Entry+1 {
		return chain.ErrBehind
	}
	d.tail.compared = time.Now()
	return nil
}

// accept commits an entry that follows the copy.
func (d *DB) accept(entry []byte) error {
	t := &d.tail
	next, r, err := t.head.After(entry)
	if err != nil {
		return fmt.Errorf("%w: entry %d of the log: %w", errEntry, t.head.Entry+1, err)
	}
	var changes []byte
	before := t.assembly
	switch r.Kind {
	case chain.Fragment, chain.Changes:
		if err := t.assembly.Add(r.Payload); err != nil {
			return fmt.Errorf("%w: entry %d of the log: %w", errEntry, next.Entry, err)
		}
		if r.Kind == chain.Fragment {
			// The copy's position stays: after a start the parts of an unfinished transaction are read again.
			t.head = next
			d.status.readTo(next.Entry)
			return nil
		}
		changes = t.assembly.Changes
	case chain.Release:
		t.successor = string(r.Payload)
	}
	if err := d.copy().Apply(changes, next.Encode()); err != nil {
		t.assembly = before // the entry is read again
		if errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrClosed) {
			return err
		}
		return fmt.Errorf("%w: entry %d of the log: %w", errEntry, next.Entry, err)
	}
	if r.Kind == chain.Genesis {
		// If the copy were empty after a crash, it would not object to an empty store in the place of a store whose
		// log was lost.
		if err := d.copy().Sync(); err != nil {
			return err
		}
	}
	t.assembly = chain.Parts{}
	t.head = next
	var wrote time.Time
	if len(changes) > 0 {
		wrote = time.Now()
	}
	d.status.moved(next, wrote, time.Since(t.caughtUp) < freshFor)
	return nil
}
