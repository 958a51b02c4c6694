package bridge

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/batch"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// readChange reads what a request asks for that changes an item or a queue.
func readChange(r *request) *failure {
	if f := noOwnHeaders(r.msg.Header, r.subject.Verb.String()); f != nil {
		return f
	}
	if r.subject.Verb == subjects.AdminConfig {
		return readConfig(r)
	}
	if f := noBody(r); f != nil {
		return f
	}
	if r.verb == verbAdmin {
		return nil
	}
	return r.readID()
}

// readConfig leaves the body to the core but for what only the bridge knows:
// which queues can be reached.
func readConfig(r *request) *failure {
	var config struct {
		DeadLetter      string `json:"dead_letter"`
		DeadLettersFrom string `json:"dead_letters_from"`
	}
	if json.Unmarshal(r.msg.Data, &config) != nil {
		return nil // which the core says in its own words
	}
	if config.DeadLetter != "" {
		if err := subjects.CheckQueue(config.DeadLetter); err != nil {
			return failf(400, "configuration: dead_letter: %s", err)
		}
	}
	if config.DeadLettersFrom == "" || config.DeadLettersFrom == "*" {
		return nil
	}
	for name := range strings.SplitSeq(config.DeadLettersFrom, ",") {
		if err := subjects.CheckQueue(name); err != nil {
			return failf(400, "configuration: dead_letters_from: expected names of queues separated by commas, or *: %s", err)
		}
	}
	return nil
}

func (r *request) readID() *failure {
	id, err := fdbpq.ParseID(r.subject.ID)
	if err != nil {
		return failf(400, "id %s: %s", shown(r.subject.ID), err)
	}
	r.id = id
	return nil
}

// noBody refuses what would be ignored.
func noBody(r *request) *failure {
	if len(bytes.TrimSpace(r.msg.Data)) > 0 {
		return failf(400, "%s has the body %s: expected none", r.subject.Verb, shown(string(r.msg.Data)))
	}
	return nil
}

// noOwnHeaders refuses headers of ours where there are none.
func noOwnHeaders(header nats.Header, what string) *failure {
	for key := range header {
		if strings.HasPrefix(key, protocol.HeaderPrefix) {
			return failf(400, "header %s is none of %s: expected no %s header", shown(key), what, protocol.HeaderPrefix)
		}
	}
	return nil
}

// changes is the work of a lane of settlements, and of changes of items and queues.
type changes struct {
	*lane
	events []fdbpq.Event // of the last transaction
}

// Work serves a batch of changes.
func (l *changes) Work(now batch.Batch[*request]) { batch.Run(now.Requests, l) }

func (b *Bridge) answerChange(r *request) {
	switch {
	case r.outcome.failure != nil:
		b.refuse(r, r.outcome.failure)
	case r.verb == verbAck:
		b.answerSettlement(r)
	default:
		b.answerBody(r)
	}
}

// Try makes changes in one transaction.
func (l *changes) Try(requests []*request) (at int, err error) {
	started := time.Now()
	var leases []fdbpq.Lease
	for _, r := range requests {
		if r.verb == verbAck {
			leases = append(leases, r.settle.lease)
		}
	}
	err = l.update(func(tx kv.Tx) error {
		l.events = l.events[:0]
		queue := l.queue.In(tx)
		queue.PrefetchLeases(tx, leases...)
		for i, r := range requests {
			at = i
			r.outcome = outcome{}
			more, err := r.change(tx, queue)
			if err != nil {
				return err
			}
			l.events = append(l.events, more...)
		}
		at = len(requests)
		return nil
	})
	if err == nil {
		l.bridge.stats.ran(kindChange, len(requests), started)
	}
	return at, err
}

// Answer answers changes.
func (l *changes) Answer(requests []*request, err error) {
	if err != nil {
		l.bridge.refuseAll(requests, err)
		return
	}
	l.bridge.stats.moved(l.queue.Name(), flowSettled, settled(requests))
	l.bridge.events.items(l.events)
	for _, r := range requests {
		l.bridge.answerChange(r)
	}
}

// change does one request's change within a transaction.
func (r *request) change(tx kv.Tx, q fdbpq.Queue) ([]fdbpq.Event, error) {
	var err error
	switch r.subject.Verb {
	case subjects.Ack:
		return r.settleIn(tx, q)
	case subjects.Remove:
		return nil, r.remove(tx, q)
	case subjects.Move:
		found, err := q.Move(tx, r.id, r.subject.Priority)
		return nil, r.changed(q, found, r.subject.Priority, err)
	case subjects.AdminConfig:
		return nil, r.configure(tx, q)
	case subjects.AdminPurge:
		var purged protocol.Purged
		if purged.Purged, err = q.Purge(tx); err == nil {
			return nil, r.answerJSON(purged)
		}
	case subjects.AdminPause:
		err = q.Pause(tx)
	case subjects.AdminResume:
		err = q.Resume(tx)
	case subjects.AdminDelete:
		_, err = q.Delete(tx)
	}
	if err != nil {
		return nil, r.unlessUnknown(err)
	}
	return nil, r.answerJSON(protocol.Named{Queue: q.Name()})
}

// unlessUnknown takes the error that there is no such queue for an answer.
func (r *request) unlessUnknown(err error) error {
	if err == fdbpq.ErrNoQueue {
		r.outcome.failure = noQueue(r.subject.Queue)
		return nil
	}
	return err
}

func (r *request) remove(tx kv.Tx, q fdbpq.Queue) error {
	held, err := q.Get(tx.Snapshot(), r.id)
	if err != nil || held == nil {
		return r.changed(q, false, 0, err)
	}
	found, err := q.Remove(tx, r.id)
	return r.changed(q, found, held.Priority, err)
}

// changed answers which item was changed, or that there is none.
func (r *request) changed(q fdbpq.Queue, found bool, priority int64, err error) error {
	if err != nil {
		return err
	}
	if !found {
		r.outcome.failure = noItem(q.Name(), r.subject.ID)
		return nil
	}
	return r.answerJSON(protocol.Changed{ID: r.subject.ID, Priority: priority})
}

func noItem(queue, id string) *failure {
	return &failure{
		code: 404, description: protocol.DescriptionNotFound, reason: protocol.ReasonUnknown,
		text: "queue " + queue + " has no item " + id,
	}
}

// configure changes the configuration, or shows it when the body is empty.
func (r *request) configure(tx kv.Tx, q fdbpq.Queue) error {
	var config fdbpq.Config
	var err error
	if object := bytes.TrimSpace(r.msg.Data); len(object) > 0 {
		config, err = q.Configure(tx, object)
	} else {
		var i *fdbpq.Inspection
		if i, err = q.Inspect(tx.Snapshot()); err == nil && i == nil {
			err = fdbpq.ErrNoQueue
		}
		if i != nil {
			config = i.Config
		}
	}
	if err != nil {
		return r.unlessUnknown(err)
	}
	return r.answerJSON(Config(config))
}

// Config is a configuration as it is answered.
func Config(c fdbpq.Config) protocol.Config {
	return protocol.Config{
		Priority: c.Priority, Lease: protocol.Duration(c.Lease), TTL: protocol.Duration(c.TTL),
		MaxDeliveries: c.MaxDeliveries, DeadLetter: c.DeadLetter, DeadLetterExpired: c.DeadLetterExpired,
		DeadLettersFrom: c.DeadLettersFrom, DedupWindow: protocol.Duration(c.DedupWindow), DedupLimit: c.DedupLimit,
		Ties: string(c.Ties), MaxLength: c.MaxLength, Overflow: string(c.Overflow),
	}
}

// answerJSON has a request answered with a body.
func (r *request) answerJSON(body any) (err error) {
	r.outcome.body, err = json.Marshal(body)
	return err
}

// answerBody answers with what the request's transaction has written down.
func (b *Bridge) answerBody(r *request) {
	if r.msg.Reply != "" {
		if err := b.nc.Publish(r.msg.Reply, r.outcome.body); err != nil {
			b.refuse(r, failf(413, "the answer has %d bytes and cannot be sent: %s", len(r.outcome.body), err))
			return
		}
	}
	b.done(r, nil)
}

// settled returns how many leases a batch has ended.
func settled(batch []*request) (n int) {
	for _, r := range batch {
		ends := r.verb == verbAck && r.settle.kind != settleProgress && r.settle.kind != settleReturn
		if ends && r.outcome.failure == nil {
			n++
		}
	}
	return n
}
