package cluster

import (
	"encoding/hex"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// state is what a member knows of itself, its copy and the log at one time.
type state struct {
	role   peers.Role
	head   chain.Head // of the copy
	read   uint64     // entry of the log; between head and it lie parts of a transaction whose end is missing.
	synced uint64
	log    LogState // as it was seen last
	full   struct { // disks
		own bool
		why error
	}
	reason  string
	misread bool      // this member has stopped at an entry, and its copy is a part of the log
	final   bool      // the copy takes no more entries in its generation of the log
	pending time.Time // when the append under way began; zero: none is
	written time.Time // when the last transaction was read, if the transaction was new, or about to be written; zero: it was not new
	sign    time.Time // when the active member was heard last, or this one began to listen
	served  time.Time // when this generation was seen to have an active member; zero: it was not
	counts  struct{ takeovers, appends uint64 }
}

// heartbeat is what the others should hear of the state.
func (s state) heartbeat(now time.Time) peers.Heartbeat {
	h := peers.Heartbeat{
		Store: hex.EncodeToString(s.head.Store[:]), Generation: s.head.Generation,
		Role: s.role, Epoch: s.head.Epoch, Entry: s.head.Entry, Hash: hex.EncodeToString(s.head.Hash[:]),
		Read: s.read, Synced: s.synced, Format: chain.RecordFormat, Final: s.final, DiskFull: s.full.own,
	}
	if s.role == peers.Stopped {
		h.Objection, h.Misread = s.reason, s.misread
	}
	if !s.pending.IsZero() {
		h.Pending = now.Sub(s.pending)
	}
	if !s.written.IsZero() {
		silence := now.Sub(s.written)
		h.Silence = &silence
	}
	return h
}

// reached is a time at which this member had contact with the log. A state of the log is no contact: a server that is
// cut off goes on describing its log.
func (s state) reached(now time.Time) time.Time {
	switch {
	case s.role == peers.Active && !s.pending.IsZero():
		return s.pending
	case s.role == peers.Active, s.role == peers.Stopped, s.head.Entry == 0:
		return now // it has nothing to wait for
	}
	return s.sign
}

// servedWithin reports whether this generation of the log had an active member within d.
func (s state) servedWithin(d time.Duration, now time.Time) bool {
	return !s.served.IsZero() && now.Sub(s.served) < d
}

// silence is how long ago the active member was heard.
func (s state) silence(now time.Time) time.Duration { return now.Sub(s.sign) }

// fill is the part of the log's room that is taken, from 0 to 1; 0 if there is no limit.
func (s state) fill() float64 {
	if s.log.MaxBytes == 0 {
		return 0
	}
	return float64(s.log.Bytes) / float64(s.log.MaxBytes)
}
