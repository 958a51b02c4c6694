package bridge

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func makeAdmin(v subjects.Verb) work {
	switch v {
	case subjects.AdminConfig:
		return new(configure)
	case subjects.AdminPurge:
		return &admin{do: func(tx kv.Tx, q fdbpq.Queue) (any, error) {
			n, err := q.Purge(tx)
			return protocol.Purged{Purged: n}, err
		}}
	case subjects.AdminPause:
		return &admin{do: named(func(tx kv.Tx, q fdbpq.Queue) error { return q.Pause(tx) })}
	case subjects.AdminResume:
		return &admin{do: named(func(tx kv.Tx, q fdbpq.Queue) error { return q.Resume(tx) })}
	case subjects.AdminDelete:
		return &admin{do: named(func(tx kv.Tx, q fdbpq.Queue) error {
			_, err := q.Delete(tx)
			return err
		})}
	}
	return new(unservable)
}

// admin is a request without options that changes a queue as a whole.
type admin struct {
	change
	do      func(kv.Tx, fdbpq.Queue) (answer any, err error)
	removed int64 // items
}

// named answers with the name of the queue.
func named(do func(kv.Tx, fdbpq.Queue) error) func(kv.Tx, fdbpq.Queue) (any, error) {
	return func(tx kv.Tx, q fdbpq.Queue) (any, error) { return protocol.Named{Queue: q.Name()}, do(tx, q) }
}

func (a *admin) read(*wire) *failure.Failure { return noOptions(&a.Request) }

func (a *admin) apply(tx kv.Tx, q fdbpq.Queue) ([]fdbpq.Event, error) {
	answer, err := a.do(tx, q)
	if purged, is := answer.(protocol.Purged); is {
		a.removed = purged.Purged
	}
	return nil, a.did(answer, err)
}

func (a *admin) count(tally *request.Tally) {
	if a.Failure == nil {
		tally[request.Removed] += a.removed
	}
}

// configure changes the configuration of a queue, or shows it when the body is empty.
type configure struct{ change }

// read checks only the names of queues in the body. The core checks everything else.
func (c *configure) read(*wire) *failure.Failure {
	if f := noOwnHeaders(c.Msg.Header, c.Subject.Verb.String()); f != nil {
		return f
	}
	var config struct {
		DeadLetter      string `json:"dead_letter"`
		DeadLettersFrom string `json:"dead_letters_from"`
		HandOver        string `json:"hand_over"`
	}
	if json.Unmarshal(c.Msg.Data, &config) != nil {
		return nil // the core refuses it
	}
	if config.DeadLetter != "" {
		if err := subjects.CheckQueue(config.DeadLetter); err != nil {
			return failure.Newf(400, "configuration: dead_letter: %s", err)
		}
	}
	if f := checkQueues("dead_letters_from", config.DeadLettersFrom); f != nil {
		return f
	}
	return checkQueues("hand_over", config.HandOver)
}

// checkQueues checks a list of queues.
func checkQueues(field, names string) *failure.Failure {
	if names == "" || names == "*" {
		return nil
	}
	for name := range strings.SplitSeq(names, ",") {
		if err := subjects.CheckQueue(name); err != nil {
			return failure.Newf(400, "configuration: %s: expected names of queues separated by commas, or *: %s", field, err)
		}
	}
	return nil
}

func (c *configure) apply(tx kv.Tx, q fdbpq.Queue) ([]fdbpq.Event, error) {
	if object := bytes.TrimSpace(c.Msg.Data); len(object) > 0 {
		config, err := q.Configure(tx, object)
		return nil, c.did(Config(config), err)
	}
	i, err := q.Inspect(tx.Snapshot())
	if err == nil && i == nil {
		err = fdbpq.ErrNoQueue
	}
	if err != nil {
		return nil, c.did(nil, err)
	}
	return nil, c.did(Config(i.Config), nil)
}

// Config is a configuration as it is answered.
func Config(c fdbpq.Config) protocol.Config {
	return protocol.Config{
		Priority: c.Priority, Lease: protocol.Duration(c.Lease), TTL: protocol.Duration(c.TTL),
		MaxDeliveries: c.MaxDeliveries, DeadLetter: c.DeadLetter, DeadLetterExpired: c.DeadLetterExpired,
		DeadLettersFrom: c.DeadLettersFrom, DedupWindow: protocol.Duration(c.DedupWindow), DedupLimit: c.DedupLimit,
		Ties: string(c.Ties), MaxLength: c.MaxLength, MaxBytes: c.MaxBytes, Overflow: string(c.Overflow),
		KeyLimit: c.KeyLimit, KeyOrder: c.KeyOrder, Fair: string(c.Fair), Rate: c.Rate.String(), KeyRate: c.KeyRate.String(),
		HandOver: c.HandOver, Strict: c.Strict,
	}
}
