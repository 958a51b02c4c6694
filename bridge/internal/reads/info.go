package reads

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/explain"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/survey"
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
		Results: q.Results, ResultsBytes: q.ResultBytes,
	}
	return i.answerJSON(i.shown)
}

// Answer first asks other bridges, if they may know more. Other requests of the queue do not wait for that.
func (i *info) Answer(l *Lane) {
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
