package client

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Listed is an item of a list.
type Listed struct {
	ID         string `json:"id"`
	Priority   int64  `json:"priority"`
	Key        string `json:"key,omitempty"`
	State      State  `json:"state"`
	Deliveries int    `json:"deliveries"`
	Endings
	Pushed   time.Time `json:"pushed"`
	Held     bool      `json:"held,omitempty"` // leased without an end, by a link
	Due      time.Time `json:"due,omitzero"`   // when the lease ends, or the delay
	Since    time.Time `json:"since,omitzero"` // when the lease began
	Expires  time.Time `json:"expires,omitzero"`
	Fence    uint64    `json:"fence,omitempty"`
	KeyFence uint64    `json:"key_fence,omitempty"`
	Dead     *Death    `json:"dead,omitempty"`
	Holder   string    `json:"holder,omitempty"`   // of a leased item: the name that its holder has given itself
	Attempts int64     `json:"attempts,omitempty"` // number of the last one
	Cause    string    `json:"cause,omitempty"`    // why the item failed last; "": no client has said
	Size     int64     `json:"size"`               // of payload and headers

	// LastAttempts are the attempts that the item remembers, the oldest first, with [ListOptions.Attempts]. They
	// are nil if the item does not fit into an answer with them.
	LastAttempts []Attempt `json:"last_attempts,omitempty"`

	// Progress is what the last holder that said anything has said of how far it is, with [ListOptions.Progress], and ProgressAt when. It
	// is "" if the item does not fit into an answer with it.
	Progress   string    `json:"progress,omitempty"`
	ProgressAt time.Time `json:"progress_at,omitzero"`

	// Unique is a value that no other item of the queue has. UniqueUntil is [UntilLeased]
	// or "".
	Unique      string `json:"unique,omitempty"`
	UniqueUntil string `json:"unique_until,omitempty"`

	ResultTTL Duration `json:"result_ttl,omitzero"` // for how long the queue keeps what becomes of the item
	Cost      int64    `json:"cost,omitempty"`      // of a delivery; 0: 1

	// Header and Dead are nil if the item does not fit into an answer with them; Header also if a value is not
	// UTF-8. [Queue.Get] has them. An item without headers has an empty Header.
	Header nats.Header `json:"headers"`

	// Body is the payload, with [ListOptions.Bodies]. It is nil if the item alone is too
	// large for an answer; [Queue.Get] has it.
	Body []byte `json:"body,omitempty"`

	// Preview is the beginning of the payload, with [ListOptions.Preview]. It is nil if the payload is one of many
	// large ones of a page.
	Preview []byte `json:"preview,omitempty"`
}

// ListOptions select the items of a list.
type ListOptions struct {
	State  State  `json:"state,omitempty"`  // of the items; "": [Ready]
	Key    string `json:"key,omitempty"`    // of the items, which are ready ones then
	Holder string `json:"holder,omitempty"` // of the items, which are leased ones then
	After  string `json:"after,omitempty"`  // begin behind the item with this id
	Bodies bool   `json:"bodies,omitempty"` // with payloads
	Page   int    `json:"-"`                // items of one request; 0: 200

	Preview int `json:"preview,omitempty"` // bytes of each payload, up to 1024; not with Bodies

	Attempts bool `json:"attempts,omitempty"` // with LastAttempts
	Progress bool `json:"progress,omitempty"` // with Progress of the items
}

// listPage is how many items one request lists by default.
const listPage = 200

// List returns the items in one state, in the order of pops from [Min]. It is no snapshot: it may or may not show
// changes that happen meanwhile. An error ends the sequence.
func (q *Queue) List(ctx context.Context, o ListOptions) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		for {
			page, err := q.page(ctx, o)
			if err != nil {
				yield(Listed{}, err)
				return
			}
			for i := range page.Items {
				if !yield(listed(&page.Items[i]), nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			o.After = page.Next
		}
	}
}

func (q *Queue) page(ctx context.Context, o ListOptions) (answer protocol.Page, err error) {
	body, err := json.Marshal(protocol.ListRequest{State: o.State, Key: o.Key, Holder: o.Holder,
		Attempts: o.Attempts, Progress: o.Progress, After: o.After, Bodies: o.Bodies, Preview: o.Preview, Limit: cmp.Or(o.Page, listPage)})
	if err != nil {
		return answer, err
	}
	err = q.ask(ctx, "list", subjects.Subject{Verb: subjects.List}, body, &answer)
	return answer, err
}

// QueuesOptions select the names of a page.
type QueuesOptions struct {
	Prefix string // of the names
	After  string // begin behind this name, which need not be a queue's
	Limit  int    // names of the page, up to 1000; 0: 200
}

// QueuesPage is a page of names. Next is After of the next page, "" when this is the last
// one.
type QueuesPage = protocol.QueuesPage

// AbsentQueue is a queue that does not exist, and for which pops wait.
type AbsentQueue = protocol.AbsentQueue

// QueuesPage returns a page of the names of queues, in their order.
func (c *Client) QueuesPage(ctx context.Context, o QueuesOptions) (*QueuesPage, error) {
	subject, err := c.grammar.Build(subjects.Subject{Verb: subjects.SysList})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(protocol.QueuesRequest{Limit: cmp.Or(o.Limit, listPage), After: &o.After, Prefix: o.Prefix})
	if err != nil {
		return nil, err
	}
	page := new(QueuesPage)
	return page, c.ask(ctx, &call{op: "queues", subject: subject, body: body}, page)
}

// Queues returns the names of all queues, in their order. An error ends the sequence.
func (c *Client) Queues(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		subject, err := c.grammar.Build(subjects.Subject{Verb: subjects.SysList})
		if err != nil {
			yield("", err)
			return
		}
		for offset := 0; ; {
			body, err := json.Marshal(protocol.QueuesRequest{Offset: int64(offset), Limit: listPage})
			var answer protocol.Queues
			if err == nil {
				err = c.ask(ctx, &call{op: "queues", subject: subject, body: body}, &answer)
			}
			if err != nil {
				yield("", err)
				return
			}
			for _, name := range answer.Queues {
				if !yield(name, nil) {
					return
				}
			}
			offset += len(answer.Queues)
			if len(answer.Queues) == 0 || offset >= answer.Total {
				return
			}
		}
	}
}
