package client

import (
	"context"
	"encoding/json"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Info is the state of a queue, its rates and its configuration.
type Info = protocol.Info

// Explain says why no item of a queue is handed out, or why one item is not.
type Explain = protocol.Explain

// Cause is the main reason of an [Explain], in one word.
type Cause = protocol.Cause

// Causes. The others are a [Reason] of the same word.
const (
	CauseFlows     = protocol.CauseFlows     // nothing keeps items from being handed out
	CauseBand      = protocol.CauseBand      // all clients ask for other priorities
	CauseFailing   = protocol.CauseFailing   // the items that are tried fail
	CauseNoWorkers = protocol.CauseNoWorkers // items are ready, and no client asks for them
	CauseUnknown   = protocol.CauseUnknown   // items are ready, and some bridges have not said whether clients ask there

	CauseDeadLetters = protocol.CauseDeadLetters // dead letters are ready, and no client asks for them
)

// Rates are items a second through the answering bridge, averaged over about a minute.
type Rates = protocol.Rates

// Info returns the queue's counts, rates and configuration.
func (q *Queue) Info(ctx context.Context) (*Info, error) {
	info := new(Info)
	return info, q.ask(ctx, "info", subjects.Subject{Verb: subjects.Info}, nil, info)
}

// History has the numbers of one bridge in the last hour, minute by minute.
type History = protocol.History

// History returns how many items of the queue went through the answering bridge, and how long the queue was.
func (q *Queue) History(ctx context.Context) (*History, error) {
	var info Info
	err := q.ask(ctx, "history", subjects.Subject{Verb: subjects.Info}, withHistory, &info)
	return info.History, err
}

var withHistory = []byte(`{"history":true}`)

// Get returns an item by its id, whatever its state, and leaves it as it is.
func (q *Queue) Get(ctx context.Context, id string, opts ...GetOption) (*Item, error) {
	var request protocol.GetRequest
	for _, opt := range opts {
		opt(&request)
	}
	var body []byte
	if request != (protocol.GetRequest{}) {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return nil, err
		}
	}
	subject, err := q.subject(subjects.Subject{Verb: subjects.Get, ID: id})
	if err != nil {
		return nil, err
	}
	m, err := q.client.do(ctx, &call{op: "get", queue: q.name, subject: subject, body: body})
	if err != nil {
		return nil, err
	}
	item, err := readItem(q, m)
	if err != nil || item.ID == "" {
		return nil, unreadable("get", q.name, m.Data, err)
	}
	return item, nil
}

// Remove removes an item, whatever its state. Its lease, if any, is lost.
func (q *Queue) Remove(ctx context.Context, id string) error {
	return q.ask(ctx, "remove", subjects.Subject{Verb: subjects.Remove, ID: id}, nil, nil)
}

// Move gives an item another priority. The item keeps its id, and stands by the time of
// its push in the new priority. A leased item moves when it returns.
func (q *Queue) Move(ctx context.Context, id string, priority int64) error {
	s := subjects.Subject{Verb: subjects.Move, ID: id, Priority: priority, HasPriority: true}
	return q.ask(ctx, "move", s, nil, nil)
}

// Requeue takes a dead letter out of the queue and pushes it to the queue that it comes from, in one transaction:
// whatever fails, exactly one of the two items exists. If to is not "", the item has to come from that queue.
// [ErrFull]: there is no room for it, and it stays a dead letter.
func (q *Queue) Requeue(ctx context.Context, id, to string) (*Pushed, error) {
	var body []byte
	if to != "" {
		var err error
		if body, err = json.Marshal(protocol.RequeueRequest{To: to}); err != nil {
			return nil, err
		}
	}
	var answer protocol.PushResponse
	if err := q.ask(ctx, "requeue", subjects.Subject{Verb: subjects.Requeue, ID: id}, body, &answer); err != nil {
		return nil, err
	}
	return &Pushed{ID: answer.ID, Seq: uint64(answer.Seq), Priority: answer.Priority}, nil
}

// Purge removes all items, leased and delayed ones included, and returns their number.
// Message ids stay remembered.
func (q *Queue) Purge(ctx context.Context) (int64, error) {
	var answer protocol.Purged
	err := q.ask(ctx, "purge", subjects.Subject{Verb: subjects.AdminPurge}, nil, &answer)
	return answer.Purged, err
}

// Pause stops deliveries until Resume; pushes go on.
func (q *Queue) Pause(ctx context.Context) error {
	return q.ask(ctx, "pause", subjects.Subject{Verb: subjects.AdminPause}, nil, nil)
}

// Resume ends a pause.
func (q *Queue) Resume(ctx context.Context) error {
	return q.ask(ctx, "resume", subjects.Subject{Verb: subjects.AdminResume}, nil, nil)
}

// Delete deletes the queue with its items and its configuration.
func (q *Queue) Delete(ctx context.Context) error {
	return q.ask(ctx, "delete", subjects.Subject{Verb: subjects.AdminDelete}, nil, nil)
}

// ask sends a request and reads its JSON answer into answer, unless that is nil.
func (q *Queue) ask(ctx context.Context, op string, s subjects.Subject, body []byte, answer any) error {
	subject, err := q.subject(s)
	if err != nil {
		return err
	}
	return q.client.ask(ctx, &call{op: op, queue: q.name, subject: subject, body: body}, answer)
}

func (c *Client) ask(ctx context.Context, r *call, answer any) error {
	m, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		return unreadable(r.op, r.queue, m.Data, err)
	}
	return nil
}

// System describes a bridge.
type System = protocol.System

// Limits are the limits of a bridge.
type Limits = protocol.Limits

// Disk is the room on the disk of a store, in bytes.
type Disk = protocol.Disk

// System returns the description of one of the bridges.
func (c *Client) System(ctx context.Context) (*System, error) {
	subject, err := c.grammar.Build(subjects.Subject{Verb: subjects.SysInfo})
	if err != nil {
		return nil, err
	}
	system := new(System)
	return system, c.ask(ctx, &call{op: "system", subject: subject}, system)
}

// History returns how many items of all queues went through the answering bridge, and how many failures there were.
func (c *Client) History(ctx context.Context) (*History, error) {
	subject, err := c.grammar.Build(subjects.Subject{Verb: subjects.SysInfo})
	if err != nil {
		return nil, err
	}
	var system System
	err = c.ask(ctx, &call{op: "system history", subject: subject, body: withHistory}, &system)
	return system.History, err
}

// Duration is a time.Duration that JSON shows as 1m30s.
type Duration = protocol.Duration

// Config is the configuration of a queue.
type Config = protocol.Config

// ConfigChange has the fields of a [Config] to change; nil fields stay as they are.
type ConfigChange = protocol.ConfigChange

// Config returns the queue's configuration.
func (q *Queue) Config(ctx context.Context) (Config, error) { return q.config(ctx, "config", nil) }

// Configure changes the queue's configuration, and creates the queue if necessary. It
// returns the whole new configuration.
func (q *Queue) Configure(ctx context.Context, change ConfigChange) (Config, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return Config{}, err
	}
	return q.config(ctx, "configure", body)
}

func (q *Queue) config(ctx context.Context, op string, body []byte) (config Config, err error) {
	err = q.ask(ctx, op, subjects.Subject{Verb: subjects.AdminConfig}, body, &config)
	return config, err
}
