package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/recovery"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/takeover"
)

const (
	surveyFor = 2 * time.Second  // how long members have to answer
	settleFor = 30 * time.Second // how long members have to stop following a log that has ended
)

// Recovery describes a new generation of the log, planned or begun, that goes on from the copy of one member: Generation
// is its number, Source the Position of the member whose copy it is, Members are the positions of all, Log is the state
// of the log that is given up, and Lost has the entries that exist, or may exist, and are not in the copy.
type Recovery = recovery.Recovery

// Position is the position of a member in the log: its Name, Role and Reason, and Generation, Epoch and Entry; Entry 0:
// it has no copy. Answers says that the member has answered; otherwise the other fields are from its last message. Known
// says that it was heard at least once.
type Position = recovery.Position

// Consent has the decisions of an operator about a recovery: Source is the member with whose copy the store goes on, ""
// for the furthest copy, and Without names members that do not answer, and whose copies are given up.
type Consent = recovery.Consent

// survey is the state of members and log at one time.
type survey struct {
	recovery.Survey
	log LogState
}

// recoveries begin new generations of the log.
type recoveries struct{ *member }

// plan is for [DB.PlanRecovery].
func (rs recoveries) plan(ctx context.Context, c Consent) (Recovery, error) {
	s, err := rs.survey(ctx)
	if err != nil {
		return Recovery{}, err
	}
	return recovery.Plan(s.Survey, c)
}

// recover is for [DB.Recover].
func (rs recoveries) recover(ctx context.Context, c Consent) (Recovery, error) {
	s, err := rs.survey(ctx)
	if err != nil {
		return Recovery{}, err
	}
	r, err := recovery.Plan(s.Survey, c)
	if err != nil {
		return r, err
	}
	if !s.log.Ended {
		if err := pause(ctx, takeover.SteadyFor); err != nil {
			return r, err
		}
		later, err := rs.survey(ctx)
		if err != nil {
			return r, err
		}
		switch again, err := recovery.Plan(later.Survey, c); {
		case err != nil:
			return again, err
		case !later.log.Ended && !later.log.is(s.log) || again.Generation != r.Generation:
			return again, errors.New("the log changes: nothing was done; look at the members, and try again")
		}
		s = later
	}
	for generation := s.At; generation < r.Generation; generation++ {
		log := rs.logs.Generation(generation)
		if err := insist(ctx, log.End); err != nil {
			return r, fmt.Errorf("end generation %d of the log: %w", generation, err)
		}
	}
	begun, from := s.Begun, s.From
	if s, err = rs.settled(ctx, s); err != nil {
		return r, err
	}
	s.Begun, s.From = begun, from // the end of its log has removed the record
	generation := r.Generation
	if r, err = recovery.Choose(s.Survey, c); err != nil {
		return r, err
	}
	r.Generation = generation
	return r, rs.beginGeneration(ctx, r)
}

// settled waits until the copies of all members that answered take no more entries. Their answers then show all
// entries that an active member has acknowledged up to the end of its log.
func (rs recoveries) settled(ctx context.Context, before survey) (survey, error) {
	for began := time.Now(); ; {
		now, err := rs.survey(ctx)
		if err != nil {
			return now, err
		}
		waitsFor := before.WaitsFor(now.Survey)
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
	first, err := recovery.FirstRecord(r, rs.process)
	if err != nil {
		return err
	}
	switch err := put(ctx, log, 0, first.Encode(), state.Identity); {
	case errors.Is(err, errForeign):
		return fmt.Errorf("another recovery has begun generation %d meanwhile: this one did nothing", r.Generation)
	case err != nil:
		return fmt.Errorf("begin generation %d of the log: %w", r.Generation, err)
	}
	rs.slog.Warn("kv/cluster: a new generation of the log has begun", "generation", r.Generation, "from", r.Source.Name, "entry", r.Source.Entry, "lost", strings.Join(r.Lost, "; "))
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
	announcer{rs.member}.broadcast(peers.Heartbeat{Poll: true})
	if err := rs.answers(ctx, began); err != nil {
		return s, err
	}
	own := rs.self.now().heartbeat(time.Now())
	own.Member = rs.options.Name
	all, _ := rs.peers.Heard()
	s.Survey = recovery.Of(own, rs.self.now().reason, all, began, rs.options.Members, rs.peers.Mark)
	if s.Newest, err = rs.newest(ctx); err != nil {
		return s, fmt.Errorf("look for the generations of the log: %w", err)
	}
	s.Doubts, _ = claimKeeper{rs.member}.doubts()
	return s, rs.lookAt(ctx, &s)
}

// lookAt reads the state of the log for a survey.
func (rs recoveries) lookAt(ctx context.Context, s *survey) error {
	err := attempt(ctx, func(ctx context.Context) (err error) {
		s.log, err = rs.logs.Generation(s.At).State(ctx)
		return err
	})
	if s.Gone = errors.Is(err, ErrNoLog); err != nil && !s.Gone {
		return fmt.Errorf("look at generation %d of the log: %w", s.At, err)
	}
	s.Log = recovery.Log{Ended: s.log.Ended, First: s.log.First, Last: s.log.Last}
	if s.Newest <= s.At {
		return nil
	}
	entry, err := readEntry(ctx, rs.logs.Generation(s.Newest), 1)
	if errors.Is(err, ErrNoEntry) {
		var state LogState
		err := attempt(ctx, func(ctx context.Context) (err error) {
			state, err = rs.logs.Generation(s.Newest).State(ctx)
			return err
		})
		if err != nil {
			return fmt.Errorf("look at generation %d of the log: %w", s.Newest, err)
		}
		s.Used = state.Ended || state.First > 1
		return nil
	}
	if err == nil {
		s.Begun, err = chain.DecodeRecord(entry)
	}
	if err == nil {
		err = json.Unmarshal(s.Begun.Payload, &s.From)
	}
	if err != nil {
		return fmt.Errorf("look at generation %d of the log: %w", s.Newest, err)
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

// keepBytes of the log stay although all living members have them on their disks, so that a member that was
// away for a while can go on from there.
const keepBytes = 64 << 20

// expendable returns the first entry that the log has to keep. Earlier entries are on the disks of all living
// members, or of two when the log is half full. Without two such members the log keeps everything.
func expendable(state LogState, own peers.Heartbeat, others []peers.Peer, members int, now time.Time) uint64 {
	keep := uint64(keepBytes)
	if state.MaxBytes > 0 {
		keep = min(keep, state.MaxBytes/4)
	}
	if state.Bytes < keep {
		return 0
	}
	synced := []uint64{own.Synced}
	for _, p := range others {
		ours := p.Entry == 0 || p.Store == own.Store && p.Generation == own.Generation
		if ours && p.Runs(peers.LivingFor, now) && p.Objection == "" {
			synced = append(synced, p.Synced)
		}
	}
	needed := 2
	if members == 1 {
		needed = 1
	}
	if len(synced) < needed {
		return 0
	}
	slices.Sort(synced)
	if state.MaxBytes > 0 && state.Bytes > state.MaxBytes/2 {
		return synced[len(synced)-needed] + 1
	}
	return synced[0] + 1
}
