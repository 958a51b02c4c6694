package reads

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/explain"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/survey"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// info shows a queue.
type info struct {
	jsonQuery
	history   bool
	local     bool // other bridges are not asked
	shown     protocol.Info
	explained explain.Explained
}

func Info(subjects.Verb) desk.Work { return new(info) }

func (i *info) Read(*codec.Wire) *failure.Failure {
	return codec.ReadFlags(i.Msg, i.Subject.Verb.String(), map[string]*bool{"history": &i.history, "local": &i.local})
}

func (i *info) Find(v *View) error {
	name := v.Queue.Name()
	q, err := survey.Read(v.Reader, v.Queue, survey.Deep)
	if err != nil {
		return err
	}
	if q == nil {
		i.Failure = failure.NoQueue(name)
		return nil
	}
	schedules, err := v.Schedules.Summary(v.Reader, v.Queue)
	if err != nil {
		return err
	}
	var history *protocol.History
	if i.history {
		history = v.History(v.Stats.QueueHistory(name))
	}
	if i.explained, err = v.Explainer.Queue(v.Reader, v.Queue, q); err != nil {
		return err
	}
	i.shown = protocol.Info{
		Queue: subjects.Own(name), Ready: q.Ready, Leased: q.Leased, Held: q.Held.Items, Delayed: q.Delayed, Bytes: q.Bytes, Overhead: q.Overhead,
		Waiting: v.Waiting(name), Rates: v.Stats.Rates(name),
		Oldest: q.NextAge(), OldestOfAll: q.ReadyAge(), OldestAtLeast: q.OldestReady.AtLeast,
		OldestLease: q.LeaseAge(), LeaseAtLeast: q.OldestLease.AtLeast, LatestLease: q.LatestLeaseAge(),
		Paused: q.Paused, Explain: i.explained.Answer(time.Now()), Config: codec.Config(q.Config), FairReady: q.FairReady, KeysSet: q.KeysSet, History: history,
		KeysOwing: q.KeysOwing, Remembered: q.Remembered, Schedules: schedules.Count, NextSchedule: schedules.Next,
		Results: q.Results, ResultsBytes: q.ResultBytes, Cost: v.Stats.Queues.Cost(name),
	}
	if q.Config.CostRate != (fdbpq.CostRate{}) {
		i.shown.CostTokens = &q.CostTokens
	}
	return i.answerJSON(i.shown)
}

// Answer first asks other bridges, if they may know more. Other requests of the queue do not wait for that.
func (i *info) Answer(l *Desk) {
	if i.local || !i.explained.Open() {
		i.jsonQuery.Answer(l)
		return
	}
	re, x := l.Responder, l.Explainer
	go func() {
		x.Complete(&i.explained)
		i.shown.Explain = i.explained.Answer(time.Now())
		if err := i.answerJSON(i.shown); err != nil {
			re.Refuse(&i.Request, failure.Explain(err))
			return
		}
		re.AnswerBody(&i.Request, i.body)
	}()
}

func Sys(v subjects.Verb) desk.Work {
	if v == subjects.SysList {
		return new(queues)
	}
	return new(system)
}

// system shows the bridge itself.
type system struct {
	jsonQuery
	history bool
}

func (s *system) Read(*codec.Wire) *failure.Failure {
	return codec.ReadFlags(s.Msg, s.Subject.Verb.String(), map[string]*bool{"history": &s.history})
}

func (s *system) Find(v *View) error {
	answer := v.System()
	answer.Limits.Payload = v.Limit.Payload()
	if tenant := s.Subject.Tenant; tenant != "" {
		// A tenant does not see the data of other tenants, or of the machine.
		answer.Prefix += "." + tenant
		answer.Store, answer.StoreID, answer.Damage, answer.Disk, answer.Cluster = "", "", nil, nil, nil
		answer.Tenant = shownTenant(tenant, v.Tenants.Of(tenant))
		return s.answerJSON(answer)
	}
	if s.history {
		answer.History = v.History(v.Stats.History())
	}
	return s.answerJSON(answer)
}

// shownTenant is a tenant's view of itself.
func shownTenant(name string, of *tenants.Tenant) *protocol.Tenant {
	has, may := of.Look()
	return &protocol.Tenant{
		Name: name, Queues: has.Queues, Items: has.Items, Bytes: has.Bytes, Charged: of.Charged(),
		Quotas: protocol.Quotas{Queues: may.Queues, Items: may.Items, Bytes: may.Bytes, Requests: may.Requests, Waiting: may.Waiting},
	}
}
