package cluster

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A log that has lost entries is ended, and a new generation of the log begins with the copy of one member. Its
// entries are numbered from 1 again; epochs go on.

// firstGeneration is the generation of a new store's log.
const firstGeneration = 1

// advice tells an operator what to do about a log that has lost entries.
const advice = `if this does not pass by itself, run "pqd recover" beside this pqd: it says what is lost before it does anything`

// errEnded: no entry follows in this generation of the log.
var errEnded = errors.New("this generation of the log has ended")

// base is the payload of the record that begins a generation: the position of the copy with which it begins.
type base struct {
	Member     string `json:"member"` // that has the copy
	Generation uint64 `json:"generation"`
	Entry      uint64 `json:"entry"`
	Hash       string `json:"hash"`
}

// is reports whether a copy has everything up to the base, and nothing more.
func (b base) is(h head) bool {
	return h.Generation == b.Generation && h.Entry == b.Entry && hex.EncodeToString(h.Hash[:]) == b.Hash
}

// begin returns the head behind the first record of a generation that goes on from h, and errBehind if the
// generation goes on from another copy.
func (h head) begin(entry []byte, generation uint64) (head, base, error) {
	r, err := decodeRecord(entry)
	var b base
	switch {
	case err != nil:
		return h, b, err
	case r.kind != kindGenesis || r.generation != generation || json.Unmarshal(r.payload, &b) != nil:
		return h, b, fmt.Errorf("it has kind %d and generation %d, expected the first record of generation %d", r.kind, r.generation, generation)
	case h.Entry > 0 && r.store != h.Store:
		return h, b, fmt.Errorf("it belongs to the store %x, this is a copy of %x", r.store, h.Store)
	case h.Entry == 0 || !b.is(h):
		return h, b, errBehind
	}
	return head{Entry: 1, Hash: hashOf(entry), Store: r.store, Generation: generation, Epoch: r.epoch, Process: r.process}, b, nil
}

// outdated reports whether the log may have a newer generation than the copy: after an
// error of advance, or because another member follows one.
func (d *DB) outdated(err error) bool {
	h := d.tail.head
	if errors.Is(err, errEnded) {
		d.status.settle()
	}
	if d.tail.outdated || errors.Is(err, errEnded) || errors.Is(err, ErrNoLog) || errors.Is(err, errBehind) || errors.Is(err, errStop) {
		return true
	}
	return d.peers.generation(d.tail.store()) > max(h.Generation, firstGeneration)
}

// newest is the newest generation that has a log.
func (d *DB) newest(ctx context.Context) (generation uint64, err error) {
	err = attempt(ctx, func(ctx context.Context) error {
		generation, err = d.logs.Newest(ctx)
		return err
	})
	return generation, err
}

// renew goes over to the newest generation of the log. It returns false if the copy follows that generation
// already.
func (d *DB) renew(ctx context.Context) (newer bool, err error) {
	generation, err := d.newest(ctx)
	if err != nil || generation <= max(d.tail.head.Generation, firstGeneration) {
		return false, err
	}
	log := d.logs.Generation(generation)
	var state LogState
	err = attempt(ctx, func(ctx context.Context) (err error) {
		state, err = log.State(ctx)
		return err
	})
	switch {
	case err != nil:
		return true, err
	case state.Ended:
		return true, fmt.Errorf("%w, and no newer one has begun: %s", errEnded, advice)
	}
	at := d.status.position() // parts of a transaction whose end is missing do not count
	entry, err := readEntry(ctx, log, 1)
	var b base
	switch {
	case err == nil:
		at, b, err = at.begin(entry, generation)
	case errors.Is(err, ErrNoEntry) && state.First > 1:
		err = errBehind // the record was purged
	case errors.Is(err, ErrNoEntry):
		return true, fmt.Errorf("generation %d of the log has no record yet: a recovery is under way, or was interrupted: run \"pqd recover\" again", generation)
	}
	switch {
	case errors.Is(err, errBehind):
		d.status.observe(state)
		return true, checkpoints{d}.fetch(ctx, generation, b)
	case err != nil:
		return true, fmt.Errorf("generation %d of the log, entry 1: %w", generation, err)
	}
	if err := d.copy().Apply(nil, at.encode()); err != nil {
		return true, err
	}
	d.enter(at)
	d.slog.Warn("kv/cluster: a new generation of the log continues this copy", "generation", generation, "entry", b.Entry)
	return true, nil
}

// awaitMend waits until this member, which has stopped, has gone over to a newer generation of the log, or has read
// a good version of the entry at which it stopped.
func (d *DB) awaitMend(ctx context.Context, stopped error) error {
	for told := ""; ; {
		if err := pause(ctx, renewEvery); err != nil {
			return err
		}
		if errors.Is(stopped, errEntry) {
			if entries, err := d.advance(ctx); entries > 0 || errors.Is(err, errEnded) {
				return nil
			}
		}
		newer, err := d.renew(ctx)
		switch {
		case newer && err == nil:
			return nil
		case newer && err.Error() != told:
			told = err.Error()
			d.slog.Warn("kv/cluster: changing to a newer generation of the log failed", "err", err)
		}
	}
}

// renewEvery is the time between looks for a newer generation.
const renewEvery = time.Second
