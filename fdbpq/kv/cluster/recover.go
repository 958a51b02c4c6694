package cluster

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/takeover"
)

// Recovery describes a new generation of the log, planned or begun, that goes on from the copy of one member.
type Recovery struct {
	Generation uint64
	Source     Position // whose copy it is
	Members    []Position
	Log        string   // the state of the log that is given up
	Lost       []string // entries that exist, or may exist, and are not in the copy
}

// Position is the position of a member in the log.
type Position struct {
	Name    string
	Answers bool // it has answered; otherwise the other fields are from its last message
	Known   bool // it was heard at least once
	Role    peers.Role
	Reason  string

	Generation, Epoch, Entry uint64 // Entry 0: it has no copy

	heartbeat peers.Heartbeat
}

// Consent has the decisions of an operator about a recovery.
type Consent struct {
	Source  string   // the member with whose copy the store goes on; "": the furthest copy
	Without []string // members that do not answer, and whose copies are given up
}

const (
	surveyFor = 2 * time.Second  // how long members have to answer
	settleFor = 30 * time.Second // how long members have to stop following a log that has ended
)

// survey is the state of members and log at one time.
type survey struct {
	members []Position
	newest  uint64 // generation that has a log
	at      uint64 // generation of the furthest copy that answers
	log     LogState
	gone    bool         // there is no log of that generation
	begun   chain.Record // the record that begins the newest generation, if that is newer
	from    chain.Base   // its payload
	used    bool         // no record can begin the newest generation, which is newer: it has ended, or its first entry was purged
	mark    peers.Mark   // the furthest entry that a member was heard to have
	doubts  string       // why acknowledged entries may be on a disk that is away
}

// PlanRecovery returns the recovery that Recover would make now. An error says why none is
// needed or possible.
func (d *DB) PlanRecovery(ctx context.Context, c Consent) (Recovery, error) {
	s, err := recoveries{d}.survey(ctx)
	if err != nil {
		return Recovery{}, err
	}
	return s.plan(c)
}

// Recover ends the log, and begins a new generation with the copy that the plan names. All members go over to it.
// An interrupted call can be repeated. If two run at the same time, one begins the generation, and the other
// returns an error.
func (d *DB) Recover(ctx context.Context, c Consent) (Recovery, error) {
	s, err := recoveries{d}.survey(ctx)
	if err != nil {
		return Recovery{}, err
	}
	r, err := s.plan(c)
	if err != nil {
		return r, err
	}
	if !s.log.Ended {
		if err := pause(ctx, takeover.SteadyFor); err != nil {
			return r, err
		}
		later, err := recoveries{d}.survey(ctx)
		if err != nil {
			return r, err
		}
		switch again, err := later.plan(c); {
		case err != nil:
			return again, err
		case !later.log.Ended && !later.log.is(s.log) || again.Generation != r.Generation:
			return again, errors.New("the log changes: nothing was done; look at the members, and try again")
		}
		s = later
	}
	for generation := s.at; generation < r.Generation; generation++ {
		log := d.logs.Generation(generation)
		if err := insist(ctx, log.End); err != nil {
			return r, fmt.Errorf("end generation %d of the log: %w", generation, err)
		}
	}
	begun, from := s.begun, s.from
	if s, err = (recoveries{d}).settled(ctx, s); err != nil {
		return r, err
	}
	s.begun, s.from = begun, from // the end of its log has removed the record
	generation := r.Generation
	if r, err = s.choose(c); err != nil {
		return r, err
	}
	r.Generation = generation
	return r, recoveries{d}.beginGeneration(ctx, r)
}

// recoveries begin new generations of the log.
type recoveries struct{ *DB }

// settled waits until the copies of all members that answered take no more entries. Their answers then show all
// entries that an active member has acknowledged up to the end of its log.
func (rs recoveries) settled(ctx context.Context, before survey) (survey, error) {
	for began := time.Now(); ; {
		now, err := rs.survey(ctx)
		if err != nil {
			return now, err
		}
		waitsFor := ""
		for _, p := range before.members {
			i := slices.IndexFunc(now.members, func(o Position) bool { return o.Name == p.Name })
			if o := now.members[i]; p.Answers && p.Entry > 0 && (!o.Answers || !o.heartbeat.Final) {
				waitsFor = p.Name
			}
		}
		if waitsFor == "" {
			return now, nil
		}
		if time.Since(began) > settleFor {
			return now, fmt.Errorf("member %s has not said that it stopped: the log has ended, and no new generation has begun; try again, or without this member", waitsFor)
		}
		if err := pause(ctx, pollEvery); err != nil {
			return now, err
		}
	}
}

// beginGeneration makes the log of a recovery.
func (rs recoveries) beginGeneration(ctx context.Context, r Recovery) error {
	log := rs.logs.Generation(r.Generation)
	if err := insist(ctx, log.Create); err != nil {
		return fmt.Errorf("make generation %d of the log: %w", r.Generation, err)
	}
	var state LogState
	err := insist(ctx, func(ctx context.Context) (err error) {
		state, err = log.State(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("look at generation %d of the log: %w", r.Generation, err)
	}
	h := r.Source.heartbeat
	from, err := json.Marshal(chain.Base{Member: h.Member, Generation: h.Generation, Entry: h.Entry, Hash: h.Hash})
	if err != nil {
		return err
	}
	first := chain.Record{Generation: r.Generation, Process: rs.process, Kind: chain.Genesis, Payload: from}
	if _, err := hex.Decode(first.Store[:], []byte(h.Store)); err != nil {
		return err
	}
	for _, p := range r.Members {
		first.Epoch = max(first.Epoch, p.Epoch+1)
	}
	switch err := put(ctx, log, 0, first.Encode(), state.Identity); {
	case errors.Is(err, errForeign):
		return fmt.Errorf("another recovery has begun generation %d meanwhile: this one did nothing", r.Generation)
	case err != nil:
		return fmt.Errorf("begin generation %d of the log: %w", r.Generation, err)
	}
	rs.slog.Warn("kv/cluster: a new generation of the log has begun", "generation", r.Generation, "from", h.Member, "entry", h.Entry, "lost", strings.Join(r.Lost, "; "))
	return nil
}

// insist repeats a call of the log for a while: its servers may be electing a leader.
func insist(ctx context.Context, call func(context.Context) error) (err error) {
	for began := time.Now(); ; {
		if err = attempt(ctx, call); err == nil || time.Since(began) > settleFor {
			return err
		}
		if ended := pause(ctx, pollEvery); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

// survey asks all members for their positions, and reads the state of the log that the furthest member follows.
func (rs recoveries) survey(ctx context.Context) (s survey, err error) {
	began := time.Now()
	rs.broadcast(peers.Heartbeat{Poll: true})
	if err := rs.answers(ctx, began); err != nil {
		return s, err
	}
	own := rs.status.heartbeat()
	own.Member = rs.options.Name
	reason := rs.Status().Reason
	s.members = []Position{{
		Name: own.Member, Answers: true, Known: true, Role: own.Role, Reason: reason,
		Generation: own.Generation, Epoch: own.Epoch, Entry: own.Entry, heartbeat: own,
	}}
	all, _ := rs.peers.Heard()
	for _, p := range all {
		s.members = append(s.members, Position{
			Name: p.Member, Answers: p.Heard.After(began) && !p.Gone, Known: true, Role: p.Role, Reason: p.Objection,
			Generation: p.Generation, Epoch: p.Epoch, Entry: p.Entry, heartbeat: p.Heartbeat,
		})
	}
	for _, name := range rs.options.Members {
		if !slices.ContainsFunc(s.members, func(p Position) bool { return p.Name == name }) {
			s.members = append(s.members, Position{Name: name})
		}
	}
	slices.SortFunc(s.members, func(a, b Position) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range s.members {
		if p.Answers {
			s.at = max(s.at, p.Generation)
		}
	}
	s.at = max(s.at, chain.FirstGeneration)
	for _, p := range s.members {
		if m := rs.peers.Mark(p.heartbeat.Store); p.Answers && p.Entry > 0 && m.Follows(s.mark) {
			s.mark = m
		}
	}
	if m := s.mark; m.Entry > 0 && !slices.ContainsFunc(s.members, func(p Position) bool { return p.Name == m.Member }) {
		s.members = append(s.members, Position{Name: m.Member, Known: true, Generation: m.Generation, Entry: m.Entry, heartbeat: peers.Heartbeat{Store: m.Store}})
	}
	if s.newest, err = rs.newest(ctx); err != nil {
		return s, fmt.Errorf("look for the generations of the log: %w", err)
	}
	s.doubts, _ = rs.doubts()
	return s, rs.lookAt(ctx, &s)
}

// lookAt reads the state of the log for a survey.
func (rs recoveries) lookAt(ctx context.Context, s *survey) error {
	err := attempt(ctx, func(ctx context.Context) (err error) {
		s.log, err = rs.logs.Generation(s.at).State(ctx)
		return err
	})
	if s.gone = errors.Is(err, ErrNoLog); err != nil && !s.gone {
		return fmt.Errorf("look at generation %d of the log: %w", s.at, err)
	}
	if s.newest <= s.at {
		return nil
	}
	entry, err := readEntry(ctx, rs.logs.Generation(s.newest), 1)
	if errors.Is(err, ErrNoEntry) {
		var state LogState
		err := attempt(ctx, func(ctx context.Context) (err error) {
			state, err = rs.logs.Generation(s.newest).State(ctx)
			return err
		})
		if err != nil {
			return fmt.Errorf("look at generation %d of the log: %w", s.newest, err)
		}
		s.used = state.Ended || state.First > 1
		return nil
	}
	if err == nil {
		s.begun, err = chain.DecodeRecord(entry)
	}
	if err == nil {
		err = json.Unmarshal(s.begun.Payload, &s.from)
	}
	if err != nil {
		return fmt.Errorf("look at generation %d of the log: %w", s.newest, err)
	}
	return nil
}

// answers waits until all members have answered, or for surveyFor.
func (rs recoveries) answers(ctx context.Context, began time.Time) error {
	limited, cancel := context.WithTimeout(ctx, surveyFor)
	defer cancel()
	for {
		all, news := rs.peers.Heard()
		missing := len(all) < len(rs.options.Members)-1 || len(rs.options.Members) == 0 // there may be further members
		for _, p := range all {
			missing = missing || !p.Heard.After(began)
		}
		if !missing {
			return nil
		}
		select {
		case <-news:
		case <-limited.Done():
			return ctx.Err()
		}
	}
}
