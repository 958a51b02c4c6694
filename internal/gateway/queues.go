package gateway

import (
	"cmp"
	"encoding/json"
	"strings"
	"sync"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func queues(in *input) (*answer, *refusal) {
	total, why := in.flag("total")
	switch {
	case why != nil:
		return nil, why
	case total:
		return in.total()
	}
	page, why := in.names(maxNames)
	if why != nil {
		return nil, why
	}
	return answerJSON(page)
}

// total counts all queues. It reads all their names, which a page does not.
func (in *input) total() (*answer, *refusal) {
	if in.query.Has("after") || in.query.Has("prefix") || in.query.Has("limit") {
		return nil, refusef(protocol.CodeBadRequest, "found total with after, prefix or limit: expected it alone")
	}
	a, why := in.passJSON(subjects.Subject{Verb: subjects.SysList}, protocol.QueuesRequest{Limit: 1})
	if why != nil {
		return nil, why
	}
	var all protocol.Queues
	if err := json.Unmarshal(a.body, &all); err != nil {
		return nil, refusef(protocol.CodeInternal, "an answer that cannot be read: %s", err)
	}
	return answerJSON(map[string]int{"total": all.Total})
}

const (
	maxNames = 1000 // of a page of names
	maxRows  = 100  // of a page of the overview

	defaultRows = 50

	// rowReaders is how many queues the gateway asks for at the same time. The bridge reads them together.
	rowReaders = 16
)

// names returns a page of the names of queues.
func (in *input) names(most int64) (page protocol.QueuesPage, why *refusal) {
	limit, why := in.limit(most)
	if why != nil {
		return page, why
	}
	a, why := in.passJSON(subjects.Subject{Verb: subjects.SysList},
		protocol.QueuesRequest{Limit: cmp.Or(limit, defaultRows), After: new(in.get("after")), Prefix: in.get("prefix")})
	if why != nil {
		return page, why
	}
	if err := json.Unmarshal(a.body, &page); err != nil {
		return page, refusef(protocol.CodeInternal, "an answer that cannot be read: %s", err)
	}
	return page, nil
}

// row is a queue of the overview.
type row struct {
	Queue     string          `json:"queue"`
	Ready     int64           `json:"ready"`
	Leased    int64           `json:"leased"`
	Delayed   int64           `json:"delayed"`
	Waiting   int             `json:"waiting"`
	Bytes     int64           `json:"bytes"`
	Oldest    float64         `json:"oldest"`
	OfAll     float64         `json:"oldest_of_all"`             // whatever its priority
	AtLeast   bool            `json:"oldest_at_least,omitempty"` // it is a lower bound
	Rates     protocol.Rates  `json:"rates"`
	Paused    bool            `json:"paused"`
	Cause     protocol.Cause  `json:"cause,omitempty"`    // as this bridge alone knows it
	Refuses   protocol.Reason `json:"refuses,omitempty"`  // why the queue takes no push
	Failing   int64           `json:"failing,omitempty"`  // items that have failed, of causes failing and delayed
	HeldFor   float64         `json:"held_for,omitempty"` // seconds of the oldest lease, where workers take none of the items that are ready
	Holder    string          `json:"holder,omitempty"`   // of that lease
	Replies   bool            `json:"replies,omitempty"`  // results for one program of Celery's rpc://
	MaxLength int64           `json:"max_length"`
	MaxBytes  int64           `json:"max_bytes"`
	Dead      *int64          `json:"dead,omitempty"` // items of its dead-letter queue, if there is one
	Error     string          `json:"error,omitempty"`
}

// overview shows a page of queues with their numbers.
func overview(in *input) (*answer, *refusal) {
	page, why := in.names(maxRows)
	if why != nil {
		return nil, why
	}
	found := make([]*row, len(page.Queues))
	var readers sync.WaitGroup
	places := make(chan struct{}, rowReaders)
	for i, name := range page.Queues {
		places <- struct{}{}
		readers.Go(func() {
			defer func() { <-places }()
			found[i] = in.row(name)
		})
	}
	readers.Wait()
	rows := []*row{}
	for _, r := range found {
		if r != nil {
			rows = append(rows, r)
		}
	}
	return answerJSON(struct {
		Queues []*row `json:"queues"`
		Next   string `json:"next,omitempty"`
	}{rows, page.Next})
}

// row returns the numbers of a queue, nil if it was deleted meanwhile.
func (in *input) row(name string) *row {
	q, why := in.infoOf(name)
	switch {
	case why != nil && why.Code == protocol.CodeNotFound:
		return nil
	case why != nil:
		return &row{Queue: name, Error: why.Description}
	}
	r := &row{
		Queue: name, Ready: q.Ready, Leased: q.Leased, Delayed: q.Delayed, Waiting: q.Waiting, Bytes: q.Bytes,
		Oldest: q.Oldest, OfAll: q.OldestOfAll, AtLeast: q.OldestAtLeast, Rates: q.Rates, Paused: q.Paused,
		Cause: q.Explain.Cause, Refuses: q.Explain.Refuses, MaxLength: q.Config.MaxLength, MaxBytes: q.Config.MaxBytes,
	}
	r.Replies, r.Failing = q.Replies(), q.Explain.Failing
	if held := q.HeldFor(); held > 0 {
		r.HeldFor, r.Holder = held.Seconds(), q.Explain.Holder
	}
	if q.Config.DeadLetter == "" && strings.HasSuffix(name, subjects.DeadLetter("")) {
		return r // a dead letter that dies is dropped
	}
	dead, why := in.infoOf(subjects.Beside(name, cmp.Or(q.Config.DeadLetter, subjects.DeadLetter(subjects.Own(name)))))
	if why == nil {
		r.Dead = new(dead.Ready + dead.Leased + dead.Delayed)
	}
	return r
}

// infoOf asks for the numbers of a queue as one bridge knows them: for a page of queues the bridge must not ask
// others about each.
func (in *input) infoOf(queue string) (i protocol.Info, why *refusal) {
	m, why := in.messageTo(subjects.Subject{Queue: queue, Verb: subjects.Info}, []byte(`{"local":true}`))
	if why != nil {
		return i, why
	}
	reply, why := in.ask(m)
	if why != nil {
		return i, why
	}
	if err := json.Unmarshal(reply.Data, &i); err != nil {
		return i, refusef(protocol.CodeInternal, "an answer that cannot be read: %s", err)
	}
	return i, nil
}

func info(in *input) (*answer, *refusal) { return in.pass(subjects.Subject{Verb: subjects.Info}, nil) }
